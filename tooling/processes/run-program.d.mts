export interface ProgramRun {
  readonly code: number | null;
  readonly output: string;
}

export interface RunProgramOptions {
  /** The built program. */
  readonly program: string;
  readonly flags: readonly string[];
  /** The working directory. */
  readonly directory: string;
  /** Called with the output so far and a way to send signals, whenever more comes. */
  readonly onOutput?: ((output: string, kill: (signal: NodeJS.Signals) => void) => void) | undefined;
}

/** Starts a built program as a user would and waits for its end. */
export declare function runProgram(options: RunProgramOptions): Promise<ProgramRun>;
