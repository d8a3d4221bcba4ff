//! Reads the file of users, all or none: a bad line is named by line and column.

use csv::{ErrorKind, StringRecord, Trim};
use serde::Deserialize;
use std::{collections::HashSet, fmt::Display, io::Read};

/// A line of the file. The address is not looked at here: that is the mail's job.
#[derive(Debug, Deserialize)]
pub struct User {
    pub id: i64,
    pub name: String,
    pub email: String,
    pub team: Option<String>,
}

/// Reads all users.
pub fn read(file: impl Read) -> anyhow::Result<Vec<User>> {
    let mut file = csv::ReaderBuilder::new().trim(Trim::All).from_reader(file);
    let header = file.headers().map_err(|error| bad_line(&error, &StringRecord::new()))?.clone();
    let (mut users, mut ids) = (Vec::new(), HashSet::new());
    for line in file.records() {
        let line = line.map_err(|error| bad_line(&error, &header))?;
        let user: User = line.deserialize(Some(&header)).map_err(|error| bad_line(&error, &header))?;
        let at = line.position().map_or(0, csv::Position::line);
        if !ids.insert(user.id) {
            return Err(bad(at, "id", format!("{} is there twice", user.id)));
        }
        // A team names a file: "../keys" is not to.
        let plain = |name: &String| name.chars().all(|c| c.is_alphanumeric() || " -_".contains(c));
        if let Some(team) = user.team.as_ref().filter(|team| !plain(team)) {
            return Err(bad(at, "team", format!("{team:?} may have letters, digits, spaces, - and _ only")));
        }
        users.push(user);
    }
    Ok(users)
}

fn bad(line: u64, column: &str, why: impl Display) -> anyhow::Error {
    anyhow::anyhow!("line {line}, column `{column}`: {why}")
}

fn bad_line(error: &csv::Error, header: &StringRecord) -> anyhow::Error {
    let line = error.position().map_or(1, csv::Position::line);
    let column = |place| header.get(place).unwrap_or("?");
    match error.kind() {
        ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(place) => bad(line, column(place as usize), err.kind()),
            None => anyhow::anyhow!("line {line}: {}", err.kind()),
        },
        ErrorKind::Utf8 { err, .. } => bad(line, column(err.field()), "not UTF-8"),
        ErrorKind::UnequalLengths { expected_len, len, .. } if len < expected_len => {
            bad(line, column(*len as usize), "missing")
        }
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            anyhow::anyhow!("line {line}: {len} columns, the first line has {expected_len}")
        }
        _ => anyhow::anyhow!("line {line}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &[u8]) -> String {
        read(file).expect_err("a bad file").to_string()
    }

    #[test]
    fn the_sample_is_read_whole() {
        let users = read(&include_bytes!("../users.csv")[..]).expect("a good file");
        assert_eq!(users.len(), 200);
        assert!(users.iter().any(|user| user.name == "李雷" && user.team.is_none()));
    }

    #[test]
    fn a_bad_line_is_named_by_line_and_column() {
        let good = "id,name,email,team\n1,Ada,ada@example.org,\n";
        let bad = |line: &str| refusal(format!("{good}{line}\n").as_bytes());
        assert_eq!(bad("two,Bo,bo@example.org,"), "line 3, column `id`: invalid digit found in string");
        assert_eq!(bad("2,Bo,bo@example.org"), "line 3, column `team`: missing");
        assert_eq!(bad("2,Bo,b,o@example.org,"), "line 3: 5 columns, the first line has 4");
        assert_eq!(bad("1,Bo,bo@example.org,"), "line 3, column `id`: 1 is there twice");
        assert!(bad("2,Bo,bo@example.org,../keys").starts_with("line 3, column `team`: \"../keys\""));
        assert_eq!(
            refusal(b"id,name,email,team\n1,B\xf6,b@example.org,\n"),
            "line 2, column `name`: not UTF-8"
        );
        assert_eq!(refusal(b"id,name,mail,team\n1,Bo,b@example.org,\n"), "line 2: missing field `email`");
    }
}
