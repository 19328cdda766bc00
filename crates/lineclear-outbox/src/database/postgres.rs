//! Statements and transactions in PostgreSQL.

use std::sync::Arc;

use lineclear_lock::Fence;
use lineclear_lock::postgres::fence as check_fence;
use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};

use super::{Cell, Database, Row, Statement, Step, Transacted, Value};
use crate::error::OutboxError;
use crate::postgres::{PostgresStore, classify, sql};
use crate::store::StoreFuture;
use crate::subscriptions::error::HandlerError;
use crate::subscriptions::handler::Work;

impl Value {
    fn postgres(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Value::Int(number) => (number, Type::INT8),
            Value::Text(text) => (text, Type::TEXT),
            Value::Flag(flag) => (flag, Type::BOOL),
            Value::Ints(numbers) => (numbers, Type::INT8_ARRAY),
            Value::Texts(texts) => (texts, Type::TEXT_ARRAY),
        }
    }
}

fn cell(row: &tokio_postgres::Row, at: usize) -> Result<Cell, tokio_postgres::Error> {
    let int = |number: Option<i64>| number.map_or(Cell::Null, Cell::Int);
    let of_type = row.columns()[at].type_();
    Ok(if *of_type == Type::INT8 {
        int(row.try_get(at)?)
    } else if *of_type == Type::INT4 {
        int(row.try_get::<_, Option<i32>>(at)?.map(i64::from))
    } else if *of_type == Type::BOOL {
        int(row.try_get::<_, Option<bool>>(at)?.map(i64::from))
    } else if *of_type == Type::TEXT_ARRAY {
        row.try_get::<_, Option<Vec<String>>>(at)?.map_or(Cell::Null, Cell::Texts)
    } else {
        row.try_get::<_, Option<String>>(at)?.map_or(Cell::Null, Cell::Text)
    })
}

impl PostgresStore {
    async fn rows(
        &self,
        client: &impl GenericClient,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Vec<Row>, OutboxError> {
        let text = sql(statement.postgres, self.target.schema());
        let params: Vec<(&(dyn ToSql + Sync), Type)> = params.iter().map(Value::postgres).collect();
        let rows = client.query_typed(&text, &params).await.map_err(classify)?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
        rows.iter()
            .map(|row| {
                let cells = (0..columns.len()).map(|at| cell(row, at)).collect::<Result<_, _>>();
                Ok(Row::new(columns.clone(), cells.map_err(OutboxError::failed)?))
            })
            .collect()
    }

    async fn run_transaction(
        &self,
        client: &mut tokio_postgres::Client,
        fence: Option<&Fence>,
        work: Option<Work>,
        steps: &[Step],
    ) -> Result<Transacted, OutboxError> {
        let transaction = client.transaction().await.map_err(classify)?;
        if let Some(held) = fence
            && !check_fence(&transaction, held).await?
        {
            transaction.rollback().await.map_err(classify)?;
            return Ok(Transacted::Lost);
        }
        if let Some(work) = &work {
            // What a handler that was given up still does in the database ends as soon.
            let limit = format!("set local statement_timeout = {}", work.timeout.as_millis().max(1));
            transaction.batch_execute(&limit).await.map_err(classify)?;
            if let Err(error) = work.run_postgres(&transaction).await {
                return Ok(Transacted::Failed(error));
            }
        }
        let mut all = Vec::with_capacity(steps.len());
        for step in steps {
            let rows = self.rows(&transaction, step.statement, &step.params).await?;
            if step.must && rows.is_empty() {
                transaction.rollback().await.map_err(classify)?;
                return Ok(Transacted::Changed);
            }
            all.push(rows);
        }
        match transaction.commit().await.map_err(classify) {
            Ok(()) => Ok(Transacted::Done(all)),
            // A constraint of the handler's tables that is checked at the end, say.
            Err(error @ OutboxError::Failed(_)) if work.is_some() => {
                Ok(Transacted::Failed(HandlerError::from(error)))
            }
            Err(error) => Err(error),
        }
    }
}

impl Database for PostgresStore {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        let exists = include_str!("../../sql/postgres/event_exists.sql");
        let tables = include_str!("../../sql/postgres/event_schema.sql");
        Box::pin(self.create(exists, tables))
    }

    fn has_log(&self) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let made = self.query(super::twin!("event_exists"), Vec::new()).await?;
            Ok(made.into_iter().any(|mut row| row.flag("made")))
        })
    }

    fn query<'a>(&'a self, statement: &'static Statement, params: Vec<Value>) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(self.on(async move |client| self.rows(client, statement, &params).await))
    }

    fn transact<'a>(
        &'a self,
        fence: Option<&'a Fence>,
        work: Option<Work>,
        steps: Vec<Step>,
    ) -> StoreFuture<'a, Transacted> {
        Box::pin(async move {
            let mut slot = self.connection.lock().await;
            let mut client = self.connected(slot.take()).await?;
            let done = self.run_transaction(&mut client, fence, work, &steps).await;
            // After an error, or a handler that was given up, the state of the connection is unknown.
            if matches!(done, Ok(Transacted::Done(_) | Transacted::Lost | Transacted::Changed)) {
                *slot = Some(client);
            }
            done
        })
    }
}
