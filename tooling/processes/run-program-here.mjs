import { Console } from 'node:console';
import { pathToFileURL } from 'node:url';

/**
 * Runs `work` in this process as if it were a program: its output is passed to `onWrite`, an exit of the
 * process ends only `work`, and stream listeners that `work` has added are removed. Calls run one after the
 * other, because streams and console belong to the whole process.
 *
 * @template T
 * @param {() => Promise<T>} work
 * @param {(stream: 'stdout' | 'stderr', text: string) => void} onWrite
 * @returns {Promise<T | number>} the result of `work`, or the status with which it ended the process
 */
export async function asProgram(work, onWrite) {
  const { exit } = process;
  const ownConsole = globalThis.console;
  let ended;
  const taken = ['stdout', 'stderr'].map((name) => {
    const stream = process[name];
    const { write } = stream;
    const listeners = stream.listeners('error');
    stream.write = (text, ...rest) => {
      if (ended === undefined) onWrite(name, String(text));
      const written = rest.at(-1);
      if (typeof written === 'function') process.nextTick(written);
      return true;
    };
    return () => {
      stream.write = write;
      for (const each of stream.listeners('error')) if (!listeners.includes(each)) stream.off('error', each);
    };
  });
  process.exit = (code) => {
    ended ??= Number(code ?? process.exitCode ?? 0);
    throw new Error(`the program ends with ${ended}`);
  };
  // a test runner's console writes to the runner's own streams
  globalThis.console = new Console(process.stdout, process.stderr);
  try {
    const result = await work();
    return ended ?? result;
  } catch (error) {
    if (ended === undefined) throw error;
    return ended;
  } finally {
    globalThis.console = ownConsole;
    process.exit = exit;
    for (const restore of taken) restore();
  }
}

let numRuns = 0;

/**
 * Runs a built program in this process. Tests of signals, failing streams and crashes need `runProgram`
 * instead, which starts a separate process and takes half a second longer.
 *
 * @param {Omit<import('./run-program.mjs').RunProgramOptions, 'onOutput'>} options
 * @returns {Promise<import('./run-program.mjs').ProgramRun>}
 */
export async function runProgramHere({ program, flags, directory }) {
  const { argv, exitCode } = process;
  const before = process.cwd();
  let output = '';
  const collect = (_, text) => {
    output += text;
  };
  process.chdir(directory);
  process.argv = [process.execPath, program, ...flags];
  try {
    const ended = await asProgram(async () => {
      // Node caches modules by URL, so a new query string makes Node run the program again
      await import(/* @vite-ignore */ `${pathToFileURL(program)}?run=${++numRuns}`);
      return undefined;
    }, collect);
    return { code: ended ?? Number(process.exitCode ?? 0), output };
  } finally {
    process.chdir(before);
    process.argv = argv;
    process.exitCode = exitCode;
  }
}
