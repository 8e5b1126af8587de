// Tells stories with the official Go SDK of 5.x: "STORY TOPIC GROUP" per line on stdin, a JSON
// text per line on stdout. Ends with stdin.
//
//	sdk ENDPOINT [tls] [ACCESS_KEY SECRET_KEY]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	patience  = 60 * time.Second
	invisible = 10 * time.Second
	poll      = 5 * time.Second
)

type story func(topic, group string) any

var (
	endpoint string
	account  credentials.SessionCredentials
	stories  = map[string]story{
		"simple":       simple,
		"sql":          sql,
		"again":        again,
		"push":         push,
		"fifo":         fifo,
		"delay":        delay,
		"transactions": transactions,
		"dead":         dead,
	}
)

func main() {
	words := os.Args[1:]
	endpoint = words[0]
	rocketmq.EnableSsl = len(words) > 1 && words[1] == "tls"
	if len(words) > 2 {
		account.AccessKey, account.AccessSecret = words[len(words)-2], words[len(words)-1]
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		given := strings.Split(lines.Text(), " ")
		text, err := json.Marshal(told(stories[given[0]], given[1], given[2]))
		check(err)
		fmt.Println(string(text))
	}
}

func told(tell story, topic, group string) (result any) {
	defer func() {
		if failure := recover(); failure != nil {
			result = map[string]string{"error": fmt.Sprint(failure)}
		}
	}()
	return tell(topic, group)
}

// Messages with all that they have, and only those of a tag.
func simple(topic, group string) any {
	producer := newProducer(topic)
	for index := 0; index < 10; index++ {
		message := newMessage(topic, fmt.Sprintf("body %d", index))
		message.SetTag([]string{"even", "odd"}[index%2])
		message.SetKeys(fmt.Sprintf("key-%d", index))
		message.AddProperty("city", "Rome")
		send(producer, message)
	}
	consumer := newSimple(topic, group, rocketmq.NewFilterExpression("odd"))
	rows := [][]string{}
	for _, each := range received(consumer, 5) {
		keys := strings.Join(each.GetKeys(), ",")
		rows = append(rows, []string{body(each), *each.GetTag(), keys, each.GetProperties()["city"]})
	}
	stop(producer, consumer)
	return sorted(rows)
}

func sql(topic, group string) any {
	producer := newProducer(topic)
	for index := 0; index < 10; index++ {
		message := newMessage(topic, fmt.Sprintf("body %d", index))
		message.AddProperty("price", fmt.Sprint(index))
		send(producer, message)
	}
	cheap := rocketmq.NewFilterExpressionWithType("price < 3", rocketmq.SQL92)
	consumer := newSimple(topic, group, cheap)
	rows := [][]string{}
	for _, each := range received(consumer, 3) {
		rows = append(rows, []string{body(each)})
	}
	stop(producer, consumer)
	return sorted(rows)
}

// What is not acknowledged comes again, and sooner if the consumer wants that.
func again(topic, group string) any {
	producer := newProducer(topic)
	send(producer, newMessage(topic, "again"))
	consumer := newSimple(topic, group, rocketmq.SUB_ALL)
	first := next(consumer)
	since := time.Now()
	check(consumer.ChangeInvisibleDuration(first, time.Second))
	second := next(consumer)
	isInTime := time.Since(since) < 5*time.Second
	check(consumer.Ack(context.Background(), second))
	stop(producer, consumer)
	return []any{first.GetDeliveryAttempt(), second.GetDeliveryAttempt(), isInTime}
}

// A listener that fails once gets the message again.
func push(topic, group string) any {
	producer := newProducer(topic)
	var failed sync.Map
	seen := newSeen(func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
		if body(message) == "push 3" {
			if _, isKnown := failed.LoadOrStore("push 3", true); !isKnown {
				return rocketmq.FAILURE
			}
		}
		return rocketmq.SUCCESS
	})
	consumer := newPush(topic, group, seen)
	for index := 0; index < 5; index++ {
		send(producer, newMessage(topic, fmt.Sprintf("push %d", index)))
	}
	rows := [][]any{}
	for _, each := range seen.wait(6) {
		rows = append(rows, []any{body(each), each.GetDeliveryAttempt()})
	}
	go stop(producer, consumer)
	return sorted(rows)
}

// Each message group comes in order.
func fifo(topic, group string) any {
	producer := newProducer(topic)
	for index := 0; index < 20; index++ {
		message := newMessage(topic, fmt.Sprint(index/2))
		message.SetMessageGroup(fmt.Sprintf("orders-%d", index%2))
		send(producer, message)
	}
	seen := newSeen(succeed)
	consumer := newPush(topic, group, seen)
	found := map[string][]string{}
	for _, each := range seen.wait(20) {
		name := *each.GetMessageGroup()
		found[name] = append(found[name], body(each))
	}
	go stop(producer, consumer)
	return found
}

// Not before its time. The SDK sends whole seconds.
func delay(topic, group string) any {
	producer := newProducer(topic)
	consumer := newSimple(topic, group, rocketmq.SUB_ALL)
	due := time.Now().Add(2 * time.Second).Truncate(time.Second)
	message := newMessage(topic, "later")
	message.SetDelayTimestamp(due)
	send(producer, message)
	found := received(consumer, 1)
	late := time.Since(due)
	stop(producer, consumer)
	return []any{body(found[0]), -100*time.Millisecond <= late && late < 5*time.Second}
}

// Committed, rolled back; and one that the broker has to ask about.
func transactions(topic, group string) any {
	checker := &rocketmq.TransactionChecker{
		Check: func(*rocketmq.MessageView) rocketmq.TransactionResolution { return rocketmq.COMMIT },
	}
	producer := newProducer(topic, rocketmq.WithTransactionChecker(checker))
	for _, end := range []string{"commit", "rollback", "none"} {
		transaction := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(context.Background(), newMessage(topic, end), transaction)
		check(err)
		if end == "commit" {
			check(transaction.Commit())
		} else if end == "rollback" {
			check(transaction.RollBack())
		}
	}
	consumer := newSimple(topic, group, rocketmq.SUB_ALL)
	bodies := []string{}
	for _, each := range received(consumer, 2) {
		bodies = append(bodies, body(each))
	}
	stop(producer, consumer)
	sort.Strings(bodies)
	return bodies
}

// Fails as often as it may; the deliveries until the dead letter has come.
func dead(topic, group string) any {
	producer := newProducer(topic)
	attempts := []int32{}
	seen := newSeen(func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
		attempts = append(attempts, message.GetDeliveryAttempt())
		return rocketmq.FAILURE
	})
	consumer := newPush(topic, group, seen)
	message := newMessage(topic, "bad")
	message.SetTag("t")
	message.SetKeys("k")
	message.AddProperty("city", "Rome")
	if strings.HasPrefix(group, "ordered") {
		message.SetMessageGroup("orders")
	}
	send(producer, message)
	letters := newSimple("%DLQ%"+group, "of-"+group, rocketmq.SUB_ALL)
	rows := [][]string{}
	for _, each := range received(letters, 1) {
		keys := strings.Join(each.GetKeys(), ",")
		rows = append(rows, []string{body(each), *each.GetTag(), keys, each.GetProperties()["city"]})
	}
	go stop(producer, consumer, letters)
	return []any{attempts, rows}
}

// Clients and messages.

func config(group string) *rocketmq.Config {
	return &rocketmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &account}
}

func newProducer(topic string, options ...rocketmq.ProducerOption) rocketmq.Producer {
	producer, err := rocketmq.NewProducer(config(""), append(options, rocketmq.WithTopics(topic))...)
	check(err)
	check(producer.Start())
	return producer
}

func newSimple(topic, group string, filter *rocketmq.FilterExpression) rocketmq.SimpleConsumer {
	consumer, err := rocketmq.NewSimpleConsumer(config(group), rocketmq.WithSimpleAwaitDuration(poll),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: filter}))
	check(err)
	check(consumer.Start())
	return consumer
}

func newPush(topic, group string, seen *seen) rocketmq.PushConsumer {
	all := map[string]*rocketmq.FilterExpression{topic: rocketmq.SUB_ALL}
	consumer, err := rocketmq.NewPushConsumer(config(group), rocketmq.WithPushAwaitDuration(poll),
		rocketmq.WithPushSubscriptionExpressions(all),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{Consume: seen.consume}))
	check(err)
	check(consumer.Start())
	return consumer
}

func newMessage(topic, text string) *rocketmq.Message {
	return &rocketmq.Message{Topic: topic, Body: []byte(text)}
}

func send(producer rocketmq.Producer, message *rocketmq.Message) {
	_, err := producer.Send(context.Background(), message)
	check(err)
}

func body(message *rocketmq.MessageView) string {
	return string(message.GetBody())
}

func next(consumer rocketmq.SimpleConsumer) *rocketmq.MessageView {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		// An empty receive is an error of this SDK.
		if found, _ := consumer.Receive(context.Background(), 1, invisible); len(found) > 0 {
			return found[0]
		}
	}
	panic("no message has come")
}

// Acknowledged, each.
func received(consumer rocketmq.SimpleConsumer, count int) []*rocketmq.MessageView {
	all := []*rocketmq.MessageView{}
	for deadline := time.Now().Add(patience); len(all) < count && time.Now().Before(deadline); {
		found, _ := consumer.Receive(context.Background(), 16, invisible)
		for _, each := range found {
			check(consumer.Ack(context.Background(), each))
			all = append(all, each)
		}
	}
	return all
}

type stoppable interface{ GracefulStop() error }

func stop(clients ...stoppable) {
	for _, each := range clients {
		check(each.GracefulStop())
	}
}

func sorted[Row any](rows []Row) []Row {
	sort.Slice(rows, func(one, other int) bool { return fmt.Sprint(rows[one]) < fmt.Sprint(rows[other]) })
	return rows
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A listener that keeps what comes.
type seen struct {
	lock     sync.Mutex
	messages []*rocketmq.MessageView
	answer   func(*rocketmq.MessageView) rocketmq.ConsumerResult
}

func newSeen(answer func(*rocketmq.MessageView) rocketmq.ConsumerResult) *seen {
	return &seen{answer: answer}
}

func succeed(*rocketmq.MessageView) rocketmq.ConsumerResult { return rocketmq.SUCCESS }

func (s *seen) consume(message *rocketmq.MessageView) rocketmq.ConsumerResult {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.messages = append(s.messages, message)
	return s.answer(message)
}

func (s *seen) wait(count int) []*rocketmq.MessageView {
	deadline := time.Now().Add(patience)
	for {
		s.lock.Lock()
		found := append([]*rocketmq.MessageView{}, s.messages...)
		s.lock.Unlock()
		if len(found) >= count || time.Now().After(deadline) {
			return found
		}
		time.Sleep(20 * time.Millisecond)
	}
}
