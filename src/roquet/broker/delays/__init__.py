"""Messages that wait for their time: by levels as in 4.9, or by timers as in 5.x."""
