import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * How a program ended: its exit code, null after a signal, and its output.
 *
 * @typedef {{ readonly code: number | null, readonly output: string }} ProgramRun
 */

/**
 * A program, and the options with which it is started.
 *
 * @typedef {object} RunProgramOptions
 * @property {string} program the path of the built program
 * @property {readonly string[]} flags
 * @property {string} directory the working directory
 * @property {((output: string, kill: (signal: NodeJS.Signals) => void) => void) | undefined} [onOutput]
 *   called after each output, with the output so far and a function that sends a signal
 */

/**
 * Starts a built program as a user would, and waits until it ends.
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
