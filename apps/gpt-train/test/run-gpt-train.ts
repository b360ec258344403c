import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

export interface Run {
  readonly code: number | null;
  readonly output: string;
}

export interface RunOptions {
  readonly flags: readonly string[];
  /** The working directory: prepared corpora and runs go there. */
  readonly directory: string;
  /** Called with the output so far and a way to send signals, whenever more comes. */
  readonly onOutput?: (output: string, kill: (signal: NodeJS.Signals) => void) => void;
}

/** Starts the built program as a user would and waits for its end. */
export function runGptTrain({ flags, directory, onOutput }: RunOptions): Promise<Run> {
  if (!existsSync(program))
    throw new Error(`${program} is not built: npx turbo run build --filter=@mtl/gpt-train...`);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...flags], { cwd: directory });
    // a test that hangs must not leave a process behind
    const deadline = setTimeout(() => child.kill('SIGKILL'), 110_000);
    let output = '';
    const collect = (chunk: Buffer): void => {
      output += chunk.toString();
      onOutput?.(output, (signal) => child.kill(signal));
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(deadline);
      resolve({ code, output });
    });
  });
}

/** The lines of a metrics.jsonl. */
export function readMetrics(path: string): Array<Record<string, number>> {
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, number>);
}
