/** What the server returns and takes. Times are RFC 3339 in UTC; ids are strings. */

export type JobState =
  | "scheduled"
  | "queued"
  | "held"
  | "parked"
  | "ready"
  | "running"
  | "retrying"
  | "completed"
  | "cancelled"
  | "dead";

/** How one claim of a job ended. */
export type ExecutionOutcome = "completed" | "failed" | "timed_out" | "cancelled" | "lost" | "released" | "snoozed";

/** A job with its history. */
export interface JobDetails {
  id: string;
  state: JobState;
  kind: string;
  /** With masked secrets. */
  input?: unknown;
  origin: string;
  tags: string[];
  claimNo: number;
  failures?: number | null;
  lastError?: string | null;
  createdAt: string;
  dueAt: string;
  finishedAt?: string | null;
  tickAt?: string | null;
  group?: string | null;
  limitKey?: string | null;
  route?: string | null;
  /** The key of its manifest. */
  manifest?: string | null;
  /** The name of the node or worker that has it. */
  node?: string | null;
  nodeId?: string | null;
  /** The claims that ended, oldest first. */
  executions: Execution[];
  steps: Step[];
}

export interface Execution {
  claimNo: number;
  outcome: ExecutionOutcome;
  isFinal: boolean;
  claimedAt?: string | null;
  finishedAt: string;
  /** With masked secrets. */
  output?: unknown;
  errorType?: string | null;
  errorMessage?: string | null;
  nodeId?: string | null;
}

export interface Step {
  name: string;
  claimNo: number;
  startedAt: string;
  finishedAt: string;
  error?: string | null;
}

/** An enqueued job. */
export interface Enqueued {
  /** The job that does the work. */
  id: string;
  /** `inserted`: it is new. `existing`: another job had the unique key. `replaced`: that job has the new input. */
  placed: "inserted" | "existing" | "replaced";
}

/** A line of a job's log. */
export interface LogLine {
  claimNo: number;
  lineNo: number;
  loggedAt: string;
  level: string;
  message: string;
}

export interface Page<T> {
  items: T[];
  /** Pass it as `cursor` to get the next page. */
  next?: string | null;
}

/** A schedule: one of `cron`, `every`, `once`, `on_demand` and `after`. */
export interface Schedule {
  /** A cron expression of 5 fields, or 6 with seconds first. */
  cron?: string;
  tz?: string;
  /** With `cron`: what to do with a local time that does not exist. */
  gap?: "skip" | "next_valid" | "shift";
  /** With `cron`: what to do with a local time that occurs twice. */
  fold?: "first" | "second" | "both";
  /** An interval such as `90s` or `1h30m`. */
  every?: string;
  phase?: string;
  /** One time; RFC 3339. */
  once?: string;
  on_demand?: boolean;
  /** After these manifests. */
  after?: string[];
  need?: "all" | "any";
  dormant?: boolean;
  start?: string;
  end?: string;
}

/** A manifest in the form of a manifest file. Durations are strings such as `90s`, `5m` or `1h30m`. */
export interface Manifest {
  kind: string;
  schedule: Schedule;
  input?: unknown;
  enabled?: boolean;
  group?: string | null;
  priority?: number;
  retries?: number | null;
  retry?: { delay?: string; factor?: number; max?: string } | null;
  timeout?: string | null;
  overlap?: "skip" | "queue_one" | "allow" | "cancel" | null;
  misfire?: { policy?: "once" | "skip" | "catch_up"; max?: number | null; threshold?: string };
  jitter?: string;
  on_dead?: "hold" | "go_on";
  exclude?: Exclusion[];
  excluded?: "skip" | "defer";
  owner?: string | null;
  route?: string;
  secret?: string[];
  tags?: string[];
}

/** A time at which a manifest does not fire: `weekdays`, `dates`, `from` and `to`, or `daily`. */
export interface Exclusion {
  weekdays?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
  dates?: string[];
  from?: string;
  to?: string;
  daily?: string;
}

/** A manifest and its state. */
export interface ManifestState {
  id: string;
  key: string;
  /** Null if the stored one cannot be read; `unreadable` says why. */
  manifest?: (Manifest & { key: string }) | null;
  unreadable?: string | null;
  nextDueAt?: string | null;
  /** It fires again when its dead letter is resolved. */
  held: boolean;
  lastSuccessAt?: string | null;
  lastSuccessJobId?: string | null;
}
