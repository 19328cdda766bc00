//! What taking and releasing a free lock costs, against two bare statements that write one row: `cost POSTGRES_URL [ROUNDS]`.

use std::time::{Duration, Instant};

use lineclear_lock::Locks;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rest @ ..] = arguments.as_slice() else {
        return Err("usage: cost POSTGRES_URL [ROUNDS]".into());
    };
    let rounds: usize = rest.first().map_or(Ok(1_000), |rounds| rounds.parse())?;
    let locks = Locks::open(url).await?;
    let (client, connection) =
        tokio_postgres::connect(url.split('?').next().unwrap_or(url), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute("create temporary table bare (name text primary key, epoch bigint not null)")
        .await?;
    // As durable as a lock.
    client.batch_execute("insert into bare values ('cost', 0); set synchronous_commit = on").await?;
    let bare = client.prepare("update bare set epoch = epoch + 1 where name = 'cost'").await?;

    // In turns, so that a busy machine slows both.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        let held = locks.try_lock("cost").await?.ok_or("another measures, too")?;
        held.release().await?;
        ours.push(begun.elapsed());
        let begun = Instant::now();
        client.execute(&bare, &[]).await?;
        client.execute(&bare, &[]).await?;
        theirs.push(begun.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!(
        "take and release {ours:?}, two bare updates {theirs:?}, ratio {ratio:.1} (medians of {rounds})"
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
