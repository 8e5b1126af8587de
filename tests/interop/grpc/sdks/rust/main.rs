//! Tells stories with the official Rust SDK of 5.x: "STORY TOPIC GROUP" per line on stdin, a JSON
//! text per line on stdout. Ends with stdin. The SDK has simple consumers only.
//!
//!     sdk ENDPOINT [tls] [ACCESS_KEY SECRET_KEY]

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};

const PATIENCE: Duration = Duration::from_secs(60);
const INVISIBLE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(5);

type Told = Result<String, ClientError>;

#[tokio::main]
async fn main() {
    for line in std::io::stdin().lines() {
        let line = line.expect("stdin");
        let words: Vec<&str> = line.split(' ').collect();
        let (topic, group) = (words[1], words[2]);
        let told = match words[0] {
            "simple" => simple(topic, group).await,
            "sql" => sql(topic, group).await,
            "fifo" => fifo(topic, group).await,
            "delay" => delay(topic, group).await,
            "transactions" => transactions(topic, group).await,
            other => Ok(format!("{:?}", format!("{other} cannot be told"))),
        };
        // Lists, texts and numbers are written as JSON writes them.
        println!("{}", told.unwrap_or_else(|error| format!("{:?}", error.to_string())));
    }
}

/// Messages with all that they have, and only those of a tag.
async fn simple(topic: &str, group: &str) -> Told {
    let producer = producer(topic).await?;
    for index in 0..10 {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(format!("body {index}").into_bytes())
            .set_tag(if index % 2 == 0 { "even" } else { "odd" })
            .set_keys(vec![format!("key-{index}")])
            .set_properties(HashMap::from([("city", "Rome")]))
            .build()?;
        producer.send(message).await?;
    }
    let found = received(topic, group, FilterExpression::new(FilterType::Tag, "odd"), 5).await?;
    let mut rows: Vec<Vec<String>> = found.iter().map(|each| vec![
        body(each),
        each.tag().unwrap_or_default().to_string(),
        each.keys().join(","),
        each.properties()["city"].clone(),
    ]).collect();
    rows.sort();
    producer.shutdown().await?;
    Ok(format!("{rows:?}"))
}

async fn sql(topic: &str, group: &str) -> Told {
    let producer = producer(topic).await?;
    for index in 0..10 {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(format!("body {index}").into_bytes())
            .set_properties(HashMap::from([("price", index.to_string())]))
            .build()?;
        producer.send(message).await?;
    }
    let cheap = FilterExpression::new(FilterType::Sql, "price < 3");
    let mut rows: Vec<Vec<String>> =
        received(topic, group, cheap, 3).await?.iter().map(|each| vec![body(each)]).collect();
    rows.sort();
    producer.shutdown().await?;
    Ok(format!("{rows:?}"))
}

/// Each message group comes in order.
async fn fifo(topic: &str, group: &str) -> Told {
    let producer = producer(topic).await?;
    for index in 0..20 {
        let text = (index / 2).to_string().into_bytes();
        let name = format!("orders-{}", index % 2);
        producer.send(MessageBuilder::fifo_message_builder(topic, text, name).build()?).await?;
    }
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for each in received(topic, group, all(), 20).await? {
        let name = each.message_group().unwrap_or_default().to_string();
        found.entry(name).or_default().push(body(&each));
    }
    producer.shutdown().await?;
    Ok(format!("{found:?}"))
}

/// Not before its time. The SDK sends whole seconds.
async fn delay(topic: &str, group: &str) -> Told {
    let producer = producer(topic).await?;
    let due = now().as_secs() + 2;
    let message = MessageBuilder::delay_message_builder(topic, b"later".to_vec(), due as i64);
    producer.send(message.build()?).await?;
    let found = received(topic, group, all(), 1).await?;
    let late = now().as_secs_f64() - due as f64;
    producer.shutdown().await?;
    Ok(format!("[{:?}, {}]", body(&found[0]), (-0.1..5.0).contains(&late)))
}

/// Committed, rolled back; and one that the broker has to ask about.
async fn transactions(topic: &str, group: &str) -> Told {
    let commits = Box::new(|_, _| TransactionResolution::COMMIT);
    let mut producer =
        Producer::new_transaction_producer(producer_option(topic), client_option(), commits)?;
    producer.start().await?;
    for end in ["commit", "rollback", "none"] {
        let message = MessageBuilder::transaction_message_builder(topic, end.as_bytes().to_vec());
        let transaction = producer.send_transaction_message(message.build()?).await?;
        match end {
            "commit" => transaction.commit().await?,
            "rollback" => transaction.rollback().await?,
            _ => (),
        }
    }
    let mut bodies: Vec<String> =
        received(topic, group, all(), 2).await?.iter().map(body).collect();
    bodies.sort();
    producer.shutdown().await?;
    Ok(format!("{bodies:?}"))
}

// Clients and messages.

fn client_option() -> ClientOption {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut option = ClientOption::default();
    option.set_access_url(words[0].clone());
    option.set_enable_tls(words.get(1).is_some_and(|word| word == "tls"));
    option.set_long_polling_timeout(POLL);
    if words.len() > 2 {
        option.set_access_key(words[words.len() - 2].clone());
        option.set_secret_key(words[words.len() - 1].clone());
    }
    option
}

fn producer_option(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

async fn producer(topic: &str) -> Result<Producer, ClientError> {
    let mut producer = Producer::new(producer_option(topic), client_option())?;
    producer.start().await?;
    Ok(producer)
}

/// Acknowledged, each.
async fn received(
    topic: &str,
    group: &str,
    filter: FilterExpression,
    count: usize,
) -> Result<Vec<MessageView>, ClientError> {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(group);
    let mut consumer = SimpleConsumer::new(option, client_option())?;
    consumer.start().await?;
    let mut found = Vec::new();
    let since = Instant::now();
    while found.len() < count && since.elapsed() < PATIENCE {
        for each in consumer.receive_with(topic, &filter, 16, INVISIBLE).await? {
            consumer.ack(&each).await?;
            found.push(each);
        }
    }
    consumer.shutdown().await?;
    Ok(found)
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

fn body(message: &MessageView) -> String {
    String::from_utf8_lossy(message.body()).into_owned()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock")
}
