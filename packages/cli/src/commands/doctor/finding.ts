/** One thing that the doctor looked at. */
export interface Finding {
  readonly name: string;
  /** `missing` is needed for training; `note` is not there and not needed, or worth knowing. */
  readonly status: 'ok' | 'note' | 'missing';
  readonly value: string;
  readonly remedy?: string;
}
