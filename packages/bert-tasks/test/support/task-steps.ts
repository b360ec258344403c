import { readFileSync } from 'node:fs';

/** A line of metrics.jsonl about a step of a fine-tuning. */
export interface TaskStep {
  readonly lm_loss: number;
  readonly grad_norm: number;
  readonly task_loss: number;
}

/** Returns the steps of a fine-tuning from its metrics.jsonl. */
export function readSteps(path: string): TaskStep[] {
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as TaskStep & { readonly type?: string })
    .filter(({ type }) => type === undefined);
}
