/** Something of note in a training run, for people and for the metrics file. */
export interface TrainingEvent {
  /** The type of its record in metrics.jsonl. */
  readonly type: 'spike' | 'rerun' | 'roll_back' | 'ranks' | 'slow_rank' | (string & {});
  readonly iteration: number;
  /** For people: one or more lines. Absent: it is only recorded. */
  readonly text?: string;
  /** The other keys of its record, as JSON. */
  readonly fields: Readonly<Record<string, unknown>>;
}
