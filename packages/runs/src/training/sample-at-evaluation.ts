import { MtlError } from '@mtl/errors';
import type { ModelSample } from '@mtl/run-parts/internal';
import type { RunLog } from '../records/run-log.js';

export interface SampleAtEvaluationOptions {
  readonly iteration: number;
  /** What the model writes; the ranks of a replica get the same, or the same error. */
  readonly show: () => Promise<ModelSample | undefined>;
  /** Of rank 0. */
  readonly log: RunLog | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Adds what the model writes to samples.jsonl in the run folder. All ranks call it. A model without a sample
 * is trained on: a message says why there is none.
 */
export async function sampleAtEvaluation(options: SampleAtEvaluationOptions): Promise<void> {
  const { iteration, show, log, onMessage } = options;
  try {
    const sample = await show();
    if (sample !== undefined) log?.sample({ iteration, ...sample });
  } catch (error) {
    const isHarmless =
      MtlError.isInstance(error) && ['MTL_LOGITS_NOT_FINITE', 'MTL_RUN_RECORD'].includes(error.code);
    if (!isHarmless) throw error;
    onMessage(`  note: no sample at iteration ${iteration}: ${error.message}`);
  }
}
