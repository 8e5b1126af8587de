// Tells stories with the official Node.js SDK of 5.x: "STORY TOPIC GROUP" per line on stdin, a JSON
// text per line on stdout. Ends with stdin.
//
//     node sdk.js ENDPOINT [tls] [ACCESS_KEY SECRET_KEY]
'use strict';

const readline = require('node:readline');
const { setTimeout: pause } = require('node:timers/promises');
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const {
  FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const PATIENCE_MS = 60000;
const INVISIBLE_MS = 10000;
const POLL_MS = 5000;

const words = process.argv.slice(2);
const silent = { info() {}, warn: console.error, error: console.error, debug() {} };
const options = {
  endpoints: words[0], namespace: '', sslEnabled: words[1] === 'tls', logger: silent,
};
if (words.length > 2) {
  const [accessKey, accessSecret] = words.slice(-2);
  options.sessionCredentials = { accessKey, accessSecret };
}

// Clients and messages.

async function started(client) {
  await client.startup();
  return client;
}

const producerOf = (topic, checker) => started(new Producer({ ...options, topics: [topic], topic, checker }));

const simpleOf = (topic, group, filter = FilterExpression.SUB_ALL) => started(new SimpleConsumer({
  ...options, consumerGroup: group, subscriptions: new Map([[topic, filter]]), awaitDuration: POLL_MS,
}));

const pushOf = (topic, group, seen) => started(new PushConsumer({
  ...options,
  consumerGroup: group,
  subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
  messageListener: seen,
  longPollingTimeout: POLL_MS,
}));

const messageOf = (topic, body, others = {}) => ({ topic, body: Buffer.from(body), ...others });

const bodyOf = message => message.body.toString();

const stop = (...clients) => Promise.all(clients.map(each => each.shutdown()));

async function next(consumer) {
  for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline;) {
    const found = await consumer.receive(1, INVISIBLE_MS);
    if (found.length) return found[0];
  }
  throw new Error('no message has come');
}

// Acknowledged, each.
async function received(consumer, count) {
  const all = [];
  for (const deadline = Date.now() + PATIENCE_MS; all.length < count && Date.now() < deadline;) {
    for (const each of await consumer.receive(16, INVISIBLE_MS)) {
      await consumer.ack(each);
      all.push(each);
    }
  }
  return all;
}

const sorted = rows => rows.sort((one, other) => (String(one) < String(other) ? -1 : 1));

const rowOf = each => [bodyOf(each), each.tag, each.keys.join(','), each.properties.get('city')];

// A listener that keeps what comes.
class Seen {
  constructor(answer = () => ConsumeResult.SUCCESS) {
    this.answer = answer;
    this.messages = [];
  }

  async consume(message) {
    this.messages.push(message);
    return this.answer(message);
  }

  async wait(count) {
    for (const deadline = Date.now() + PATIENCE_MS; this.messages.length < count && Date.now() < deadline;) {
      await pause(20);
    }
    return this.messages;
  }
}

const stories = {
  // Messages with all that they have, and only those of a tag.
  async simple(topic, group) {
    const producer = await producerOf(topic);
    for (let index = 0; index < 10; index++) {
      await producer.send(messageOf(topic, `body ${index}`, {
        tag: index % 2 ? 'odd' : 'even', keys: [`key-${index}`], properties: new Map([['city', 'Rome']]),
      }));
    }
    const consumer = await simpleOf(topic, group, new FilterExpression('odd'));
    const rows = (await received(consumer, 5)).map(rowOf);
    await stop(producer, consumer);
    return sorted(rows);
  },

  async sql(topic, group) {
    const producer = await producerOf(topic);
    for (let index = 0; index < 10; index++) {
      const properties = new Map([['price', String(index)]]);
      await producer.send(messageOf(topic, `body ${index}`, { properties }));
    }
    const consumer = await simpleOf(topic, group, new FilterExpression('price < 3', FilterType.SQL));
    const rows = (await received(consumer, 3)).map(each => [bodyOf(each)]);
    await stop(producer, consumer);
    return sorted(rows);
  },

  // What is not acknowledged comes again, and sooner if the consumer wants that.
  async again(topic, group) {
    const producer = await producerOf(topic);
    await producer.send(messageOf(topic, 'again'));
    const consumer = await simpleOf(topic, group);
    const first = await next(consumer);
    const since = Date.now();
    await consumer.changeInvisibleDuration(first, 1000);
    const second = await next(consumer);
    const isInTime = Date.now() - since < 5000;
    await consumer.ack(second);
    await stop(producer, consumer);
    return [first.deliveryAttempt, second.deliveryAttempt, isInTime];
  },

  // A listener that fails once gets the message again.
  async push(topic, group) {
    const producer = await producerOf(topic);
    let hasFailed = false;
    const seen = new Seen(message => {
      if (hasFailed || bodyOf(message) !== 'push 3') return ConsumeResult.SUCCESS;
      hasFailed = true;
      return ConsumeResult.FAILURE;
    });
    const consumer = await pushOf(topic, group, seen);
    for (let index = 0; index < 5; index++) await producer.send(messageOf(topic, `push ${index}`));
    const rows = (await seen.wait(6)).map(each => [bodyOf(each), each.deliveryAttempt]);
    stop(producer, consumer).catch(console.error);
    return sorted(rows);
  },

  // Each message group comes in order.
  async fifo(topic, group) {
    const producer = await producerOf(topic);
    for (let index = 0; index < 20; index++) {
      const messageGroup = `orders-${index % 2}`;
      await producer.send(messageOf(topic, String(Math.floor(index / 2)), { messageGroup }));
    }
    const seen = new Seen();
    const consumer = await pushOf(topic, group, seen);
    const found = {};
    for (const each of await seen.wait(20)) (found[each.messageGroup] ??= []).push(bodyOf(each));
    stop(producer, consumer).catch(console.error);
    return found;
  },

  // Not before its time.
  async delay(topic, group) {
    const producer = await producerOf(topic);
    const consumer = await simpleOf(topic, group);
    const due = Date.now() + 1500;
    await producer.send(messageOf(topic, 'later', { deliveryTimestamp: new Date(due) }));
    const [found] = await received(consumer, 1);
    const late = Date.now() - due;
    await stop(producer, consumer);
    return [bodyOf(found), late >= -100 && late < 5000];
  },

  // One of two delayed messages is recalled.
  async recall(topic, group) {
    const producer = await producerOf(topic);
    const consumer = await simpleOf(topic, group);
    const due = Date.now() + 2000;
    const first = await producer.send(messageOf(topic, 'first', { deliveryTimestamp: new Date(due) }));
    await producer.send(messageOf(topic, 'second', { deliveryTimestamp: new Date(due + 500) }));
    const recalled = await producer.recallMessage(topic, first.recallHandle);
    const bodies = (await received(consumer, 1)).map(bodyOf);
    await stop(producer, consumer);
    return [recalled.messageId === first.messageId, bodies];
  },

  // Committed, rolled back; and one that the broker has to ask about.
  async transactions(topic, group) {
    const producer = await producerOf(topic, { check: async () => TransactionResolution.COMMIT });
    for (const end of ['commit', 'rollback', 'none']) {
      const transaction = producer.beginTransaction();
      await producer.send(messageOf(topic, end), transaction);
      if (end !== 'none') await transaction[end]();
    }
    const consumer = await simpleOf(topic, group);
    const bodies = (await received(consumer, 2)).map(bodyOf);
    await stop(producer, consumer);
    return bodies.sort();
  },

  // Fails as often as it may; the deliveries until the dead letter has come.
  async dead(topic, group) {
    const producer = await producerOf(topic);
    const attempts = [];
    const seen = new Seen(message => {
      attempts.push(message.deliveryAttempt);
      return ConsumeResult.FAILURE;
    });
    const consumer = await pushOf(topic, group, seen);
    await producer.send(messageOf(topic, 'bad', {
      tag: 't',
      keys: ['k'],
      properties: new Map([['city', 'Rome']]),
      messageGroup: group.startsWith('ordered') ? 'orders' : undefined,
    }));
    const letters = await simpleOf(`%DLQ%${group}`, `of-${group}`);
    const rows = (await received(letters, 1)).map(rowOf);
    stop(producer, consumer, letters).catch(console.error);
    return [attempts, rows];
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [story, topic, group] = line.split(' ');
    let result;
    try {
      result = await stories[story](topic, group);
    } catch (failure) {
      console.error(failure);
      result = { error: String(failure) };
    }
    console.log(JSON.stringify(result));
  }
  process.exit(0);
}

main();
