//! A server with two callers: mallory, who attacks, and bob, whose requests are measured.

use std::fmt;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::Served;
use super::super::http::HttpConnection;
use crate::Fixture;

/// How many clients attack at a time.
const CLIENTS: usize = 64;

/// The address space of the server, in KiB.
const SPACE: u64 = 4 << 20;

/// Attacks run one after the other, because they would disturb each other's measurements.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The action that a client repeats.
pub(super) type Strike = Box<dyn Fn(&AttackStage, usize) + Sync>;

/// A server under a limit of memory.
pub(super) struct AttackStage {
    served: Served,
    /// The header of mallory, who can write.
    mallory: String,
    /// The header of a caller that can only read mallory's data.
    reader: String,
    /// The header of bob, who can write.
    bob: String,
    /// The agent's model, which accepts connections and never answers.
    _model: TcpListener,
    fixture: Fixture,
    _turn: MutexGuard<'static, ()>,
}

/// The measurements of an attack.
pub(super) struct AttackMeasurements {
    pub(super) is_up: bool,
    pub(super) peak_bytes: u64,
    pub(super) strikes: usize,
    pub(super) health: RequestTimes,
    pub(super) read: RequestTimes,
    pub(super) write: RequestTimes,
}

/// How long another caller's requests took.
#[derive(Default)]
pub(super) struct RequestTimes {
    pub(super) count: usize,
    pub(super) failed: usize,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

impl AttackStage {
    pub(super) fn new(args: &[&str]) -> Self {
        Self::with_files(4096, args)
    }

    /// Starts a server with at most this many open files.
    pub(super) fn with_files(files: u32, args: &[&str]) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let fixture = Fixture::empty();
        let model = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = fixture.path("agents");
        fs::create_dir_all(folder.join("helper")).unwrap();
        fs::write(folder.join("helper/root_agent.yaml"), "name: helper\nmodel: gemini-2.5-flash\n").unwrap();
        let user = |name: &str, user: &str, more: &[&str]| {
            let made =
                fixture.json(&[&["token", "new", "--name", name, "--app", "helper", "--user", user], more].concat());
            let text = |name: &str| made[name].as_str().unwrap().to_owned();
            (format!("Authorization: Bearer {}\r\n", text("token")), text("entry"))
        };
        let (mallory, reader) = (user("mallory", "mallory", &[]), user("reader", "mallory", &["--rights", "read"]));
        let bob = user("bob", "bob", &[]);
        let tokens = fixture.path("tokens.toml");
        fs::write(&tokens, format!("{}\n{}\n{}", mallory.1, reader.1, bob.1)).unwrap();

        let of_server = ["--json", "serve", "--port", "0", "--log-level", "error", "--agents"];
        let of_login = [folder.to_str().unwrap(), "--tokens", tokens.to_str().unwrap()];
        let command = fixture.command(&[&of_server[..], &of_login[..], args].concat());
        let mut limited = Command::new("sh");
        let limit = format!("ulimit -v {SPACE}; ulimit -n {files}; exec \"$0\" \"$@\"");
        limited.arg("-c").arg(limit);
        match std::env::var_os("SCRATCHBOOK_ATTACK_BINARY") {
            Some(binary) => limited.arg(binary),
            None => limited.arg(command.get_program()),
        };
        limited.args(command.get_args());
        for (name, value) in command.get_envs() {
            value.map(|value| limited.env(name, value));
        }
        limited.env("GOOGLE_GEMINI_BASE_URL", format!("http://{}", model.local_addr().unwrap()));
        limited.env("GOOGLE_API_KEY", "none").process_group(0);
        let stage = Self {
            served: Served::of(limited),
            mallory: mallory.0,
            reader: reader.0,
            bob: bob.0,
            _model: model,
            fixture,
            _turn: turn,
        };
        stage.make("bob", "small");
        stage
    }

    pub(super) fn connect(&self) -> std::io::Result<HttpConnection> {
        HttpConnection::open(&self.served.address())
    }

    pub(super) fn address(&self) -> String {
        self.served.address()
    }

    /// Returns the header of a caller that acts for a user.
    pub(super) fn login(&self, user: &str) -> &str {
        if user == "bob" { &self.bob } else { &self.mallory }
    }

    /// Returns the header of a caller that can only read mallory's data.
    pub(super) fn reader(&self) -> &str {
        &self.reader
    }

    pub(super) fn make(&self, user: &str, session: &str) {
        self.make_with(user, &json!({"id": session}));
    }

    /// Returns the path of a file beside the server's database.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.fixture.path(name)
    }

    /// Creates a session with given events.
    pub(super) fn make_with_events(&self, user: &str, session: &str, count: usize) {
        let event =
            |n| json!({"author": "agent", "content": {"parts": [{"text": format!("{n}: {}", "x".repeat(200))}]}});
        self.make_with(user, &json!({"id": session, "events": (0..count).map(event).collect::<Vec<_>>()}));
    }

    pub(super) fn make_with(&self, user: &str, session: &Value) {
        let path = format!("/v1/apps/helper/users/{user}/sessions");
        let asked = self.connect().unwrap().ask("POST", &path, self.login(user), &session.to_string());
        let (status, _, body) = asked.unwrap();
        assert_eq!(status, 201, "{body}");
    }

    /// Starts a run of this user in a new session, and returns whether the server accepts it.
    pub(super) fn begins_a_run(&self, user: &str) -> bool {
        use std::io::{BufRead, BufReader, Write};
        let (address, body) = (self.address(), json!({"message": "Hello"}).to_string());
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (login, length) = (self.login(user), body.len());
        let head =
            format!("POST /v1/apps/helper/users/{user}/sessions/small/runs HTTP/1.1\r\nHost: {address}\r\n{login}");
        write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).is_ok() && line.contains(" 200 ")
    }

    /// Lets all clients attack for a while, and measures another caller's requests.
    pub(super) fn attacked_by(&self, strike: &Strike) -> AttackMeasurements {
        let seconds = std::env::var("SCRATCHBOOK_ATTACK_SECONDS").map_or(1.0, |text| text.parse().unwrap());
        let stop = &AtomicBool::new(false);
        let small = "/v1/apps/helper/users/bob/sessions/small";
        let append = json!({"event": {"author": "bob", "actions": {"stateDelta": {"step": 1}}}}).to_string();
        thread::scope(|scope| {
            let attackers: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    scope.spawn(move || {
                        let mut count = 0;
                        while !stop.load(Ordering::Relaxed) {
                            strike(self, client);
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            // The measurement begins after the first moment of the attack.
            thread::sleep(Duration::from_millis(200));
            let health = scope.spawn(|| self.seen("GET", "/health", "", "", stop));
            let read = scope.spawn(|| self.seen("GET", small, &self.bob, "", stop));
            let write = scope.spawn(|| self.seen("POST", &format!("{small}/events"), &self.bob, &append, stop));
            let (begun, mut peak_bytes) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_secs_f64(seconds) {
                thread::sleep(Duration::from_millis(20));
                // The memory is read repeatedly, because it is unknown after the server has ended.
                peak_bytes = self.peak_bytes().max(peak_bytes);
            }
            stop.store(true, Ordering::Relaxed);
            let (health, read, write) = (health.join().unwrap(), read.join().unwrap(), write.join().unwrap());
            let strikes = attackers.into_iter().map(|attacker| attacker.join().unwrap()).sum();
            let answer = self.connect().and_then(|mut open| open.ask("GET", "/health", "", ""));
            let is_up = answer.is_ok_and(|(status, ..)| status == 200);
            AttackMeasurements { is_up, peak_bytes: self.peak_bytes().max(peak_bytes), strikes, health, read, write }
        })
    }

    /// Repeats a request until the end of the measurement.
    fn seen(&self, method: &str, path: &str, headers: &str, body: &str, stop: &AtomicBool) -> RequestTimes {
        let (mut times, mut failed, mut connection) = (Vec::new(), 0, None);
        while times.is_empty() || !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let asked = match connection.take() {
                Some(connection) => Ok(connection),
                None => self.connect(),
            };
            let answer =
                asked.and_then(|mut open| open.ask(method, path, headers, body).map(|answer| (answer.0, open)));
            times.push(begun.elapsed());
            match answer {
                Ok((200, open)) => connection = Some(open),
                _ => failed += 1,
            }
            if failed > 20 {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        times.sort();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        RequestTimes { count: times.len(), failed, p50: at(0.5), p99: at(0.99) }
    }

    /// Returns the server's peak memory.
    fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.served.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default();
        kib << 10
    }

    /// Ends the server and returns its exit code.
    pub(super) fn end(self) -> Option<i32> {
        self.served.end("-INT")
    }
}

impl fmt::Display for AttackMeasurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, mib) = (if self.is_up { "up" } else { "gone" }, self.peak_bytes >> 20);
        write!(f, "{up}, peak {mib} MiB, {} strikes", self.strikes)?;
        for (name, seen) in [("health", &self.health), ("read", &self.read), ("write", &self.write)] {
            let ms = |time: Duration| time.as_secs_f64() * 1000.0;
            write!(f, "; {name} p50 {:.1} ms p99 {:.1} ms", ms(seen.p50), ms(seen.p99))?;
            write!(f, " of {}, {} failed", seen.count, seen.failed)?;
        }
        Ok(())
    }
}
