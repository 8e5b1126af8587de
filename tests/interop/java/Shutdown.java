import org.apache.rocketmq.remoting.netty.NettyRemotingClient;

/** Runs what shuts clients down, without the three seconds that a 5.5.0 client waits for nothing. */
final class Shutdown {
    private static final long POLL_MS = 5;

    private Shutdown() {
    }

    /**
     * The last thing a client does is to wait for its event thread, which looks up from an empty
     * queue once in three seconds. An interrupt makes it look at once; the event threads of
     * other clients log that and go on.
     */
    static void run(Runnable shutdown) throws InterruptedException {
        Thread thread = new Thread(shutdown);
        thread.start();
        while (thread.isAlive()) {
            thread.join(POLL_MS);
            if (isWaitingForEventThread(thread)) {
                interruptEventThreads();
            }
        }
    }

    private static boolean isWaitingForEventThread(Thread thread) {
        boolean isWaiting = false;
        for (StackTraceElement frame : thread.getStackTrace()) {
            isWaiting |= frame.getMethodName().equals("join");
            if (frame.getClassName().equals(NettyRemotingClient.class.getName())) {
                return isWaiting;
            }
        }
        return false;
    }

    private static void interruptEventThreads() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("NettyEventExecutor")) {
                thread.interrupt();
            }
        }
    }
}
