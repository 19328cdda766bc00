/** What the client throws. */

export class LineclearError extends Error {
  override name = "LineclearError";
}

/** A wrong field of a request. */
export interface FieldProblem {
  /** A JSON pointer to the field. */
  pointer: string;
  detail: string;
}

/** The server refused a request. `code` is stable; `message` says what is wrong and what to do. */
export class ApiError extends LineclearError {
  override name = "ApiError";
  readonly code: string;
  readonly fields: FieldProblem[];
  readonly requestId: string | undefined;

  constructor(
    readonly status: number,
    readonly body: Record<string, unknown>,
    /** How long the server asked to wait before the next try. */
    readonly retryAfterMs = 0,
  ) {
    const code = typeof body.code === "string" ? body.code : `http_${status}`;
    super(typeof body.detail === "string" ? body.detail : `the server answered ${status}`);
    this.code = code;
    this.fields = Array.isArray(body.errors) ? (body.errors as FieldProblem[]) : [];
    this.requestId = typeof body.request_id === "string" ? body.request_id : undefined;
  }
}

/** No response came: the server was not reached, or its response was lost. */
export class ConnectionError extends LineclearError {
  override name = "ConnectionError";
}

/** The job ended as a dead letter. */
export class JobFailedError extends LineclearError {
  override name = "JobFailedError";

  constructor(
    readonly job: string,
    /** `failed`, `timed_out`, `lost`, … */
    readonly outcome: string,
    readonly errorType: string | undefined,
    readonly errorMessage: string | undefined,
  ) {
    super(`job ${job} ${outcome.replaceAll("_", " ")}${errorMessage === undefined ? "" : `: ${errorMessage}`}`);
  }
}

/** The job was cancelled. */
export class JobCancelledError extends LineclearError {
  override name = "JobCancelledError";

  constructor(readonly job: string) {
    super(`job ${job} was cancelled`);
  }
}

/** The job has not ended in time. It goes on: wait for it again with its id. */
export class WaitTimeoutError extends LineclearError {
  override name = "WaitTimeoutError";

  constructor(readonly job: string, readonly timeoutMs: number) {
    super(`job ${job} has not ended within ${timeoutMs} ms; it goes on`);
  }
}

/** Whether a repeated request may succeed. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError)) return false;
  return error.status >= 500 || [408, 425, 429].includes(error.status) || error.code === "idempotency_in_flight";
}
