//! Nothing, results through aliases, and every kind of error.
#![deny(warnings)]

use jobq::prelude::*;
use std::{borrow::Cow, error::Error, fmt, io};

type Answer<T = ()> = Result<T, JobError>;
type Fixed = io::Result<u8>;

#[derive(Debug)]
enum Own {
    Broken,
}
impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}
impl Error for Own {}

#[job]
async fn nothing() {}
#[job]
async fn unit() -> () {}
#[job]
async fn alias() -> Answer {
    Ok(())
}
#[job]
async fn alias_of(n: u8) -> Answer<Option<u8>> {
    Ok(Some(n))
}
#[job]
async fn fixed_alias() -> Fixed {
    Ok(1)
}
#[job]
async fn by_io() -> io::Result<()> {
    Err(io::ErrorKind::NotFound.into())
}
#[job]
async fn by_own() -> Result<Vec<String>, Own> {
    Err(Own::Broken)
}
#[job]
async fn by_anyhow() -> anyhow::Result<u8> {
    anyhow::bail!("no")
}
#[job]
async fn by_eyre() -> eyre::Result<u8> {
    eyre::bail!("no")
}
#[job]
async fn by_string() -> Result<u8, String> {
    Err("no".into())
}
#[job]
async fn by_str() -> Result<u8, &'static str> {
    Err("no")
}
#[job]
async fn by_cow() -> Result<u8, Cow<'static, str>> {
    Err("no".into())
}
#[job]
async fn by_box() -> Result<u8, Box<dyn Error + Send + Sync>> {
    Err("no".into())
}
#[job]
async fn by_job_error(n: u8) -> Result<u8, JobError> {
    if n == 0 {
        return Err(JobError::dead("never"));
    }
    std::str::from_utf8(&[n])?.parse::<u8>().map_err(JobError::new)
}

async fn user() -> Result<(), Box<dyn Error + Send + Sync>> {
    let () = nothing().await;
    let () = unit().await;
    let _: (Option<u8>, u8, Vec<String>) =
        (alias_of(1).await.unwrap(), fixed_alias().await?, by_own().await?);
    let _: (u8, u8, u8, u8) = (by_anyhow().await?, by_eyre().await?, by_string().await?, by_str().await?);
    let _: (u8, u8) = (by_cow().await?, by_box().await?);
    by_io().await?;
    alias().await.and(by_job_error(1).await.map(drop)).map_err(|error| error.to_string())?;
    Ok(())
}

fn main() {
    drop(user());
}
