// Load for a gRPC endpoint of RocketMQ 5.x, on one connection, in the manner of the official SDKs.
//
//	grpc_load ADDRESS first    DIRECTORY                     until one call is answered
//	grpc_load ADDRESS send     DIRECTORY IN_FLIGHT SECONDS
//	grpc_load ADDRESS receive  DIRECTORY IN_FLIGHT SECONDS ACKED_AT_ONCE
//
// Requests are bytes that were prepared in DIRECTORY: settings, route, sends, receive and ack. Those
// of ack are a start that entries are added to. Prints one line of JSON. Whatever goes wrong, or
// takes too long, ends it with a message and status 1.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	service      = "/apache.rocketmq.v2.MessagingService/"
	callTimeout  = 10 * time.Second
	startTimeout = 60 * time.Second
	// After the time that the load has.
	patience = 15 * time.Second
	ok       = 20000
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

// Messages are bytes already.
type raw struct{}

func (raw) Marshal(value any) ([]byte, error) { return value.([]byte), nil }
func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = data
	return nil
}
func (raw) Name() string { return "proto" }

type load struct {
	connection *grpc.ClientConn
	directory  string
	callCount  atomic.Int64
	messages   atomic.Int64
}

func main() {
	address, mode, directory := os.Args[1], os.Args[2], os.Args[3]
	quickly := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, MaxDelay: 5 * time.Millisecond, Multiplier: 1},
		MinConnectTimeout: callTimeout,
	}
	connection, err := grpc.Dial(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})),
		grpc.WithConnectParams(quickly))
	check(err)
	load := &load{connection: connection, directory: directory}
	if mode == "first" {
		bounded(startTimeout)
		load.awaitFirst()
		return
	}
	inFlight, seconds := number(4), time.Duration(number(5))*time.Second
	bounded(seconds + patience)
	load.register()
	begin := time.Now()
	end := begin.Add(seconds)
	var workers sync.WaitGroup
	for worker := 0; worker < inFlight; worker++ {
		workers.Add(1)
		go func(worker int) {
			defer workers.Done()
			if mode == "send" {
				load.send(worker, inFlight, end)
			} else {
				load.receive(number(6), end)
			}
		}(worker)
	}
	workers.Wait()
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"messages": float64(load.messages.Load()), "seconds": time.Since(begin).Seconds(),
	}))
}

func (load *load) awaitFirst() {
	request := load.file("route")
	for {
		context, cancel := load.context()
		err := load.connection.Invoke(context, service+"QueryRoute", request, new([]byte), grpc.WaitForReady(true))
		cancel()
		if err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Opens the stream of settings, which ends with the program.
func (load *load) register() {
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := load.connection.NewStream(withHeaders(context.Background(), 0), description, service+"Telemetry")
	check(err)
	check(stream.SendMsg(load.file("settings")))
	var answer []byte
	check(stream.RecvMsg(&answer))
}

func (load *load) send(worker int, inFlight int, end time.Time) {
	requests := pieces(load.file("sends"))
	for turn := worker; time.Now().Before(end); turn += inFlight {
		load.call("SendMessage", requests[turn%len(requests)])
		load.messages.Add(1)
	}
}

func (load *load) receive(ackedAtOnce int, end time.Time) {
	request, ack := load.file("receive"), load.file("ack")
	for time.Now().Before(end) {
		entries := load.received(request)
		for start := 0; start < len(entries); start += ackedAtOnce {
			acks := append([]byte(nil), ack...)
			for _, entry := range entries[start:min(start+ackedAtOnce, len(entries))] {
				acks = append(acks, entry...)
			}
			load.call("AckMessage", acks)
		}
		load.messages.Add(int64(len(entries)))
	}
}

// The entries of an acknowledgement of what was received.
func (load *load) received(request []byte) (entries [][]byte) {
	context, cancel := load.context()
	defer cancel()
	stream, err := load.connection.NewStream(context, &grpc.StreamDesc{ServerStreams: true}, service+"ReceiveMessage")
	check(err)
	check(stream.SendMsg(request))
	check(stream.CloseSend())
	for {
		var answer []byte
		if stream.RecvMsg(&answer) != nil {
			break
		}
		if found := field(answer, messageField); found != nil {
			system := field(found, systemField)
			entry := appended(nil, entryMessageIdField, field(system, messageIdField))
			entry = appended(entry, entryReceiptField, field(system, receiptField))
			entries = append(entries, appended(nil, entryField, entry))
		} else if status := field(answer, statusField); status != nil {
			checkStatus("ReceiveMessage", status)
		}
	}
	if len(entries) == 0 {
		fail("ReceiveMessage ended without messages")
	}
	return entries
}

func (load *load) call(method string, request []byte) {
	context, cancel := load.context()
	defer cancel()
	var answer []byte
	check(load.connection.Invoke(context, service+method, request, &answer))
	checkStatus(method, field(answer, statusField))
}

func (load *load) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(withHeaders(context.Background(), load.callCount.Add(1)), callTimeout)
}

// As SDKs send them: the id of a request is new, and so is its time in each second.
func withHeaders(parent context.Context, count int64) context.Context {
	return metadata.AppendToOutgoingContext(parent,
		"x-mq-client-id", "bench@1@0@load",
		"x-mq-language", "GO",
		"x-mq-protocol", "v2",
		"x-mq-client-version", "5.1.3",
		"x-mq-request-id", fmt.Sprintf("%08x-7ab5-4d21-9e60-%012x", uint32(count*2654435761), count),
		"x-mq-date-time", time.Now().UTC().Format("20060102T150405Z"),
		"x-mq-namespace", "")
}

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

func (load *load) file(name string) []byte {
	data, err := os.ReadFile(filepath.Join(load.directory, name))
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

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
