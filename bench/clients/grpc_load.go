// Load for a gRPC endpoint of RocketMQ 5.x, on one connection, in the manner of the official SDKs.
//
//	grpc_load ADDRESS first    DIRECTORY                     until one call is answered
//	grpc_load ADDRESS send     DIRECTORY IN_FLIGHT SECONDS
//	grpc_load ADDRESS receive  DIRECTORY IN_FLIGHT SECONDS ACKED_AT_ONCE
//
// Requests are bytes that were prepared in DIRECTORY: settings, route, sends, receive and ack. Those
// of ack are a start that entries are added to. Prints one line of JSON. Whatever goes wrong, or
// takes too long, ends it with a message and status 1: what is counted was answered with OK.
//
// It shares the cores with the server that is measured, so it takes as little of them as it can: one
// goroutine writes and reads frames of HTTP/2 itself. grpc-go needed more CPU than our server did.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	service      = "/apache.rocketmq.v2.MessagingService/"
	startTimeout = 60 * time.Second
	// After the time that the load has.
	patience = 15 * time.Second
	ok       = 20000
	headSize = 5 // of a message: whether it is compressed, and its size
	// What the server may send before it is read: more than one answer has.
	windowSize = 1 << 20
	// What a server takes that has not said anything else.
	windowSizeMin  = 65535
	frameSizeMin   = 16384
	bufferSize     = 65536
	headerTableMin = 4096
	// Numbers of fields.
	statusField         = 1 // of all answers; its code is 1, its text 2
	messageField        = 2 // of ReceiveMessageResponse
	systemField         = 3 // of Message
	messageIdField      = 3 // of SystemProperties
	receiptField        = 12
	entryField          = 3 // of AckMessageRequest
	entryMessageIdField = 1
	entryReceiptField   = 2
)

func main() {
	address, mode := os.Args[1], os.Args[2]
	if mode == "first" {
		bounded(startTimeout)
		for awaitFirst(address) != nil {
			time.Sleep(time.Millisecond)
		}
		return
	}
	inFlight, seconds := number(4), time.Duration(number(5))*time.Second
	bounded(seconds + patience)
	connection, err := connect(address)
	check(err)
	check(connection.register())
	begin, cpuBefore := time.Now(), cpuSeconds()
	load := &load{connection: connection, end: begin.Add(seconds)}
	connection.unsentMax = inFlight / 2
	for worker := 0; worker < inFlight; worker++ {
		if mode == "send" {
			load.send(pieces(file("sends")), worker, inFlight)
		} else {
			load.receive(file("receive"), file("ack"), number(6))
		}
	}
	check(connection.awaitCalls())
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"messages": float64(load.messages), "seconds": time.Since(begin).Seconds(),
		"cpu_seconds": cpuSeconds() - cpuBefore,
	}))
}

func awaitFirst(address string) error {
	connection, err := connect(address)
	if err != nil {
		return err
	}
	defer connection.socket.Close()
	first := &call{method: "QueryRoute", request: file("route"), ended: func() {}}
	first.taken = func([]byte) { first.isAnswered = true }
	connection.start(first)
	return connection.awaitCalls()
}

// Workers have one call in flight at a time, and start the next one when it has ended.
type load struct {
	connection *connection
	end        time.Time
	messages   int
}

func (load *load) isOver() bool { return !load.connection.now.Before(load.end) }

func (load *load) send(requests [][]byte, turn int, inFlight int) {
	send := &call{method: "SendMessage"}
	next := func() {
		if !load.isOver() {
			send.request = requests[turn%len(requests)]
			turn += inFlight
			load.connection.start(send)
		}
	}
	send.taken = send.takeStatus
	send.ended = func() {
		load.messages++
		next()
	}
	next()
}

func (load *load) receive(request []byte, ackStart []byte, ackedAtOnce int) {
	receive, ack := &call{method: "ReceiveMessage", request: request}, &call{method: "AckMessage"}
	var entries [][]byte // of acknowledgements of what was received
	acked := 0
	next := func() {
		if acked < len(entries) {
			ack.request = append(ack.request[:0], ackStart...)
			for end := min(acked+ackedAtOnce, len(entries)); acked < end; acked++ {
				ack.request = append(ack.request, entries[acked]...)
			}
			load.connection.start(ack)
			return
		}
		load.messages += acked
		entries, acked = entries[:0], 0
		if !load.isOver() {
			load.connection.start(receive)
		}
	}
	receive.taken = func(answer []byte) {
		if found := field(answer, messageField); found != nil {
			system := field(found, systemField)
			entry := appended(nil, entryMessageIdField, field(system, messageIdField))
			entry = appended(entry, entryReceiptField, field(system, receiptField))
			entries = append(entries, appended(nil, entryField, entry))
		} else if field(answer, statusField) != nil {
			receive.takeStatus(answer)
		}
	}
	receive.ended = func() {
		if len(entries) == 0 {
			fail("ReceiveMessage ended without messages")
		}
		next()
	}
	ack.taken, ack.ended = ack.takeStatus, next
	next()
}

// A call is started once, or again when it has ended.
type call struct {
	method     string
	request    []byte
	taken      func(answer []byte) // each message, whose bytes do not stay
	ended      func()              // after it was answered
	isAnswered bool
	incomplete []byte // the start of a message
	// Of the headers that came last.
	grpcStatus, grpcMessage string
	isLast                  bool
}

func (call *call) takeStatus(answer []byte) {
	checkStatus(call.method, field(answer, statusField))
	call.isAnswered = true
}

func (call *call) takeData(data []byte) {
	if len(call.incomplete) > 0 {
		data = append(call.incomplete, data...)
	}
	for len(data) >= headSize {
		end := headSize + int(binary.BigEndian.Uint32(data[1:]))
		if len(data) < end {
			break
		}
		call.taken(data[headSize:end])
		data = data[end:]
	}
	call.incomplete = append(call.incomplete[:0], data...)
}

func (call *call) finish() error {
	if call.grpcStatus != "0" || !call.isAnswered || len(call.incomplete) > 0 {
		return fmt.Errorf("%s ended with status %q of gRPC: %s", call.method, call.grpcStatus, call.grpcMessage)
	}
	call.isAnswered, call.grpcStatus = false, ""
	call.ended()
	return nil
}

type connection struct {
	socket     *os.File
	reader     *bufio.Reader
	writer     *bufio.Writer
	framer     *http2.Framer
	encoder    *hpack.Encoder
	encoded    bytes.Buffer
	decoder    *hpack.Decoder
	calls      map[uint32]*call // by their streams
	nextStream uint32
	current    *call // whose headers are read
	// What the server takes before it has read it: in all, and of one stream.
	window, streamWindow int
	waiting              []*call // for the window
	unreported           int     // bytes that were read after the last WINDOW_UPDATE
	// Half of the calls are sent before the answers to the others are read: else each side would wait
	// for the other one.
	unsent, unsentMax int
	now               time.Time
	date              string
}

func connect(address string) (*connection, error) {
	dialed, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	// Reads block in the kernel. The poller of Go would add two calls and a change of threads to each.
	defer dialed.Close()
	socket, err := dialed.(*net.TCPConn).File()
	check(err)
	check(syscall.SetNonblock(int(socket.Fd()), false))
	made := &connection{
		socket: socket, calls: map[uint32]*call{}, nextStream: 1,
		reader: bufio.NewReaderSize(socket, bufferSize), writer: bufio.NewWriterSize(socket, bufferSize),
		window: windowSizeMin, streamWindow: windowSizeMin,
	}
	made.framer = http2.NewFramer(made.writer, made.reader)
	made.framer.SetReuseFrames()
	made.encoder = hpack.NewEncoder(&made.encoded)
	made.decoder = hpack.NewDecoder(headerTableMin, made.takeHeader)
	made.tick()
	made.writer.WriteString(http2.ClientPreface)
	made.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: windowSize})
	return made, made.framer.WriteWindowUpdate(0, windowSize)
}

// Opens the stream of settings, which ends with the program.
func (connection *connection) register() error {
	telemetry := &call{method: "Telemetry", request: file("settings")}
	telemetry.taken = func([]byte) { telemetry.isAnswered = true }
	connection.open(telemetry, false)
	for !telemetry.isAnswered {
		if err := connection.step(); err != nil {
			return err
		}
	}
	connection.calls = map[uint32]*call{}
	return nil
}

func (connection *connection) awaitCalls() error {
	for len(connection.calls)+len(connection.waiting) > 0 {
		if err := connection.step(); err != nil {
			return err
		}
	}
	return nil
}

func (connection *connection) start(call *call) {
	connection.waiting = append(connection.waiting, call)
	connection.startWaiting()
}

func (connection *connection) startWaiting() {
	for len(connection.waiting) > 0 {
		call := connection.waiting[0]
		size := headSize + len(call.request)
		if size > min(connection.streamWindow, frameSizeMin) {
			fail(call.method + ": a request that is larger than a frame")
		}
		if size > connection.window {
			return
		}
		connection.open(call, true)
		connection.waiting = connection.waiting[1:]
	}
}

// Errors of writing are those of the next flush.
func (connection *connection) open(call *call, isWhole bool) {
	stream := connection.nextStream
	connection.nextStream += 2
	connection.calls[stream] = call
	connection.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: connection.headers(call.method, isWhole), EndHeaders: true,
	})
	connection.encoded.Reset()
	var head [headSize]byte
	binary.BigEndian.PutUint32(head[1:], uint32(len(call.request)))
	connection.encoded.Write(head[:])
	connection.encoded.Write(call.request)
	connection.framer.WriteData(stream, isWhole, connection.encoded.Bytes())
	connection.window -= connection.encoded.Len()
	connection.unsent++
	if connection.unsent == connection.unsentMax {
		connection.flush()
	}
}

// As SDKs send them: the id of a request is new, and so is its time in each second. A stream that
// stays open has no end.
func (connection *connection) headers(method string, isWhole bool) []byte {
	id := fmt.Sprintf("%08x-7ab5-4d21-9e60-%012x", connection.nextStream*2654435761, connection.nextStream)
	connection.encoded.Reset()
	for _, header := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: service + method},
		{Name: ":authority", Value: os.Args[1]},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "grpc-go/1.62.1"},
		{Name: "te", Value: "trailers"},
		{Name: "x-mq-client-id", Value: "bench@1@0@load"},
		{Name: "x-mq-language", Value: "GO"},
		{Name: "x-mq-protocol", Value: "v2"},
		{Name: "x-mq-client-version", Value: "5.1.3"},
		{Name: "x-mq-request-id", Value: id},
		{Name: "x-mq-date-time", Value: connection.date},
		{Name: "x-mq-namespace", Value: ""},
	} {
		connection.encoder.WriteField(header)
	}
	if isWhole {
		connection.encoder.WriteField(hpack.HeaderField{Name: "grpc-timeout", Value: "10S"})
	}
	return connection.encoded.Bytes()
}

func (connection *connection) flush() error {
	connection.unsent = 0
	return connection.writer.Flush()
}

func (connection *connection) tick() {
	now := time.Now()
	if now.Unix() != connection.now.Unix() {
		connection.date = now.UTC().Format("20060102T150405Z")
	}
	connection.now = now
}

// Takes one frame. What was written goes out before that has to be awaited.
func (connection *connection) step() error {
	if connection.reader.Buffered() == 0 {
		if err := connection.flush(); err != nil {
			return err
		}
		connection.tick()
	}
	read, err := connection.framer.ReadFrame()
	if err != nil {
		return err
	}
	stream := read.Header().StreamID
	call := connection.calls[stream]
	switch frame := read.(type) {
	case *http2.DataFrame:
		if call != nil {
			call.takeData(frame.Data())
			if frame.StreamEnded() {
				return fmt.Errorf("%s ended without trailers", call.method)
			}
		}
		return connection.report(int(frame.Length))
	case *http2.HeadersFrame:
		connection.current = call
		if call != nil {
			call.isLast = frame.StreamEnded()
		}
		return connection.takeHeaders(stream, frame.HeaderBlockFragment(), frame.HeadersEnded())
	case *http2.ContinuationFrame:
		return connection.takeHeaders(stream, frame.HeaderBlockFragment(), frame.HeadersEnded())
	case *http2.WindowUpdateFrame:
		if stream == 0 {
			connection.window += int(frame.Increment)
			connection.startWaiting()
		}
	case *http2.SettingsFrame:
		return connection.takeSettings(frame)
	case *http2.PingFrame:
		if !frame.IsAck() {
			return connection.framer.WritePing(true, frame.Data)
		}
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return fmt.Errorf("the server sent %v", frame)
	}
	return nil
}

func (connection *connection) takeHeader(header hpack.HeaderField) {
	if call := connection.current; call != nil {
		switch header.Name {
		case "grpc-status":
			call.grpcStatus = header.Value
		case "grpc-message":
			call.grpcMessage = header.Value
		}
	}
}

func (connection *connection) takeHeaders(stream uint32, block []byte, isEnd bool) error {
	if _, err := connection.decoder.Write(block); err != nil || !isEnd {
		return err
	}
	if err := connection.decoder.Close(); err != nil {
		return err
	}
	call := connection.current
	if call == nil || !call.isLast {
		return nil
	}
	delete(connection.calls, stream)
	return call.finish()
}

func (connection *connection) takeSettings(frame *http2.SettingsFrame) error {
	if frame.IsAck() {
		return nil
	}
	if size, isThere := frame.Value(http2.SettingInitialWindowSize); isThere {
		connection.streamWindow = int(size)
	}
	if size, isThere := frame.Value(http2.SettingHeaderTableSize); isThere {
		connection.encoder.SetMaxDynamicTableSizeLimit(size)
	}
	return connection.framer.WriteSettingsAck()
}

// Of bytes that were read, and no more take the room of others.
func (connection *connection) report(size int) error {
	connection.unreported += size
	if connection.unreported < windowSize/2 {
		return nil
	}
	size, connection.unreported = connection.unreported, 0
	return connection.framer.WriteWindowUpdate(0, uint32(size))
}

// Fails unless it is OK.
func checkStatus(method string, status []byte) {
	for len(status) > 0 {
		number, kind, size := protowire.ConsumeTag(status)
		if number == 1 && kind == protowire.VarintType {
			if code, _ := protowire.ConsumeVarint(status[size:]); code != ok {
				fail(fmt.Sprintf("%s: status %d %s", method, code, field(status, 2)))
			}
			return
		}
		status = status[size+protowire.ConsumeFieldValue(number, kind, status[size:]):]
	}
	fail(method + ": an answer without a status")
}

// The first value of a field of bytes; nil if there is none.
func field(message []byte, wanted protowire.Number) []byte {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			fail("an answer that cannot be read")
		}
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[size:])
			return value
		}
		length := protowire.ConsumeFieldValue(number, kind, message[size:])
		if length < 0 {
			fail("an answer that cannot be read")
		}
		message = message[size+length:]
	}
	return nil
}

func appended(message []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), value)
}

func file(name string) []byte {
	data, err := os.ReadFile(filepath.Join(os.Args[3], name))
	check(err)
	return data
}

// Each with its size in four bytes before it.
func pieces(data []byte) (found [][]byte) {
	for len(data) > 0 {
		end := 4 + binary.BigEndian.Uint32(data)
		found = append(found, data[4:end])
		data = data[end:]
	}
	return found
}

func bounded(limit time.Duration) {
	time.AfterFunc(limit, func() { fail(fmt.Sprintf("not done after %s", limit)) })
}

func number(place int) int {
	value, err := strconv.Atoi(os.Args[place])
	check(err)
	return value
}

func min(one int, other int) int {
	if one < other {
		return one
	}
	return other
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
