/** Wrong input of the program, in the words of the ranks that found it. */
export interface WrongInput {
  /** As they printed it. */
  readonly error: string;
  /** Where other ranks did not find it: those that did. */
  readonly onlyRanks: readonly number[];
}

/** What all launchers do after an attempt. */
export interface Verdict {
  readonly next: 'end' | 'restart' | 'fail';
  /** Which rank failed, and how; empty at a good end. */
  readonly message: string;
  readonly exitCode: 1 | 2;
  readonly details: Readonly<Record<string, unknown>>;
  /** The coded error to end with, where wrong input ends the job. */
  readonly input?: WrongInput;
}
