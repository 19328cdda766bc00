/** What the server recorded about jobs. */

import assert from "node:assert/strict";

import type { Client, JobDetails } from "lineclear";

/** The outcomes of a job's claims, oldest first. */
export const outcomes = (job: JobDetails): string[] => job.executions.map((execution) => execution.outcome);

/** Each of these jobs completed with its first claim: nothing was lost, and nothing ran twice. */
export async function assertCompletedOnce(client: Client, ids: string[]): Promise<void> {
  for (const id of ids) {
    const job = await client.job(id);
    assert.deepEqual({ state: job.state, claims: job.claimNo, outcomes: outcomes(job) }, { state: "completed", claims: 1, outcomes: ["completed"] });
  }
}
