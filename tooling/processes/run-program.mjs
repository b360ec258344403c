import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * The end of a program.
 *
 * @typedef {{ readonly code: number | null, readonly output: string }} ProgramRun
 */

/**
 * A program and how it is started.
 *
 * @typedef {object} RunProgramOptions
 * @property {string} program the built program
 * @property {readonly string[]} flags
 * @property {string} directory the working directory
 * @property {((output: string, kill: (signal: NodeJS.Signals) => void) => void) | undefined} [onOutput]
 *   called with the output so far and a way to send signals, whenever more comes
 */

/**
 * Starts a built program as a user would and waits for its end.
 *
 * @param {RunProgramOptions} options
 * @returns {Promise<ProgramRun>}
 */
export function runProgram({ program, flags, directory, onOutput }) {
  if (!existsSync(program)) throw new Error(`${program} is not built: npm run dev -- build:packages`);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...flags], { cwd: directory });
    // a test that hangs must not leave a process behind
    const deadline = setTimeout(() => child.kill('SIGKILL'), 110_000);
    let output = '';
    const collect = (chunk) => {
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
