/** What all launchers do after an attempt. */
export interface Verdict {
  readonly next: 'end' | 'restart' | 'fail';
  /** Which rank failed, and how; empty at a good end. */
  readonly message: string;
  readonly exitCode: 1 | 2;
  readonly details: Readonly<Record<string, unknown>>;
}
