import { Console } from 'node:console';
import { pathToFileURL } from 'node:url';

/** Thrown in place of an end of this process. */
class ProgramEnd extends Error {
  constructor(code) {
    super(`the program ends with ${code}`);
    this.code = code;
  }
}

let numRuns = 0;

/**
 * Runs a built program in this process, as `runProgram` does in one of its own, which takes half a second
 * more: one after the other, since directory, output and listeners are those of the process. A program that
 * ends the process is over; what it left to listen to signals and streams is taken away.
 *
 * @param {import('./run-program.mjs').RunProgramOptions} options signals reach this process, too
 * @returns {Promise<import('./run-program.mjs').ProgramRun>}
 */
export async function runProgramHere({ program, flags, directory, onOutput }) {
  const { argv, exit, exitCode } = process;
  const [before, ownConsole] = [process.cwd(), globalThis.console];
  const streams = [process.stdout, process.stderr];
  const writes = streams.map(({ write }) => write);
  const listeners = streams.map((stream) => stream.listeners('error'));
  let output = '';
  for (const stream of streams) {
    stream.write = (text, ...rest) => {
      output += text;
      onOutput?.(output, (signal) => process.kill(process.pid, signal));
      const written = rest.at(-1);
      if (typeof written === 'function') process.nextTick(written);
      return true;
    };
  }
  process.chdir(directory);
  process.argv = [process.execPath, program, ...flags];
  process.exit = (code) => {
    throw new ProgramEnd(code ?? process.exitCode ?? 0);
  };
  // that of a test runner has streams of its own
  globalThis.console = new Console(...streams);
  try {
    // a module runs once for each of its addresses
    await import(/* @vite-ignore */ `${pathToFileURL(program)}?run=${++numRuns}`);
    return { code: Number(process.exitCode ?? 0), output };
  } catch (error) {
    if (error instanceof ProgramEnd) return { code: Number(error.code), output };
    throw error;
  } finally {
    globalThis.console = ownConsole;
    Object.assign(process, { argv, exit, exitCode });
    process.chdir(before);
    streams.forEach((stream, index) => {
      stream.write = writes[index];
      for (const listener of stream.listeners('error'))
        if (!listeners[index].includes(listener)) stream.off('error', listener);
    });
  }
}
