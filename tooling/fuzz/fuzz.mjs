#!/usr/bin/env node
/**
 * Damages valid files of every format and gives each to its reader, in a separate process. A case fails if
 * the reader crashes, hangs, throws an error without a code, or uses more than 2 GB. A case also fails if the
 * result differs from the valid file's result although the format stores the data of the result twice. See
 * `npm run dev -- fuzz --help`.
 */
import { fork } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const help = `usage: npm run dev -- fuzz [flags]: damages files of every format and reads them

  --cases N         damaged files of each format (default 200)
  --seconds N       instead: all that fit into this time
  --only FORMAT     one format
  --seed S          other damage (default 1); the same seed gives the same files
  --case-seconds N  a case that takes longer hangs (default 60)
  --formats FILE    the module of the formats
  --corpus FOLDER   inputs that failed once, read first (default: the inputs of this repository)
`;
const here = fileURLToPath(new URL('.//', import.meta.url));
const maximumBytes = 2e9;
// how many seconds a busy machine may need to load all packages
const startSeconds = 300;
const found = fileURLToPath(new URL('../build/fuzz/', import.meta.url));

const { values } = parseArgs({
  options: {
    cases: { type: 'string' },
    seconds: { type: 'string' },
    only: { type: 'string' },
    seed: { type: 'string', default: '1' },
    'case-seconds': { type: 'string', default: '60' },
    formats: { type: 'string', default: join(here, 'formats.mjs') },
    corpus: { type: 'string', default: join(here, 'corpus') },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  process.stdout.write(help);
  process.exit(0);
}
const readNumber = (name, otherwise) => {
  const number = Number(values[name] ?? otherwise);
  if (number > 0) return number;
  console.error(`error[MTL_FLAG_VALUE]: --${name} ${values[name]} cannot be used; expected a number above 0`);
  process.exit(2);
};
const caseSeconds = readNumber('case-seconds');
const seconds = values.seconds === undefined ? undefined : readNumber('seconds');
const numCases = seconds === undefined ? readNumber('cases', '200') : Number.POSITIVE_INFINITY;

/** The process that reads files. If a case ends it, a new process is started for the next case. */
class Reader {
  #folder = mkdtempSync(join(tmpdir(), 'mtl-fuzz-'));
  #child;
  formats;

  async start() {
    // the heap limit is well below the memory limit of the whole process
    const execArgv = ['--max-old-space-size=1400'];
    this.#child = fork(join(here, 'reader-process.mjs'), [values.formats, this.#folder], {
      execArgv,
      silent: true,
    });
    this.output = '';
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.on('data', (data) => {
        this.output = (this.output + data).slice(-4000);
      });
    }
    ({ formats: this.formats } = await this.#until(({ kind }) => kind === 'ready', startSeconds));
    if (this.formats === undefined) throw new Error(`the reader did not start: ${this.output}`);
  }

  /** Runs a case. If the previous case ended the reader, starts a new process first. */
  async run(message) {
    if (this.#child === undefined) await this.start();
    let path;
    let file = message.input?.file;
    this.#child.send(message);
    const outcome = await this.#until((reply) => {
      if (reply.kind === 'started') ({ path, file } = reply);
      return reply.done === true;
    });
    const input = outcome.done ? join(this.#folder, 'input') : path;
    return { ...outcome, input, file };
  }

  /**
   * Returns the first reply for which `isAwaited` returns true, or how the process ended if it ends before.
   */
  #until(isAwaited, seconds = caseSeconds) {
    const child = this.#child;
    return new Promise((resolve) => {
      let failure;
      const end = (kind, what) => {
        failure ??= { kind, what };
        child.kill('SIGKILL');
      };
      const clock = setTimeout(() => end('hang', `took more than ${seconds} seconds`), seconds * 1000);
      const watch = setInterval(() => {
        const bytes = residentBytes(child.pid);
        if (bytes > maximumBytes) end('memory', `took ${bytes} bytes`);
      }, 200);
      const settle = (outcome) => {
        clearTimeout(clock);
        clearInterval(watch);
        child.off('message', receive).off('exit', exit);
        resolve(outcome);
      };
      const receive = (reply) => {
        if (!isAwaited(reply)) return;
        // a short case may end before its memory is measured, so the peak is read afterwards
        const bytes = reply.done ? peakBytes(child.pid) : 0;
        if (bytes <= maximumBytes) settle(reply);
        else end('memory', `took ${bytes} bytes`);
      };
      const exit = (code, signal) => {
        this.#child = undefined;
        settle(failure ?? { kind: 'crash', what: `ended with ${signal ?? code}: ${this.output}` });
      };
      child.on('message', receive).on('exit', exit);
    });
  }

  close() {
    this.#child?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Returns, in bytes, the value of a line such as `VmRSS:  1234 kB` in Linux's status of a process. Returns 0
 * on other systems than Linux, and after the end of the process.
 */
function statusBytes(pid, field) {
  try {
    const line = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
      readFileSync(`/proc/${pid}/status`, 'latin1'),
    );
    return line === null ? 0 : Number(line[1]) * 1024;
  } catch {
    return 0;
  }
}
const residentBytes = (pid) => statusBytes(pid, 'VmRSS');
const peakBytes = (pid) => statusBytes(pid, 'VmHWM');

const failures = [];
const counts = new Map();

async function runOne(reader, message) {
  const outcome = await reader.run(message);
  const { kind } = outcome;
  const ofFormat = counts.get(message.format) ?? { cases: 0, read: 0, refused: 0 };
  counts.set(message.format, ofFormat);
  ofFormat.cases++;
  if (kind === 'read' || kind === 'refused') {
    ofFormat[kind]++;
    return;
  }
  const name = message.input === undefined ? `${values.seed}-${message.index}` : basename(message.input.path);
  failures.push({ ...message, ...outcome });
  console.error(`FAILED ${message.format} ${name} (${outcome.file}): ${kind}: ${outcome.what}`);
  if (outcome.input === undefined || message.input !== undefined) return;
  mkdirSync(join(found, message.format), { recursive: true });
  const kept = join(found, message.format, `${name}--${outcome.file.replaceAll('/', '+')}`);
  copyFileSync(outcome.input, kept);
  console.error(
    `kept as ${kept}; once it is repaired, it belongs into tooling/fuzz/corpus/${message.format}`,
  );
}

/**
 * Returns inputs that once failed. They are in files named `NAME--FILE`, where FILE is the example's file
 * that the input replaces.
 */
function readCorpus(format) {
  const folder = join(values.corpus, format);
  const names = readdirSync(values.corpus).includes(format) ? readdirSync(folder).sort() : [];
  return names.map((name) => ({ path: join(folder, name), file: name.split('--')[1].replaceAll('+', '/') }));
}

const reader = new Reader();
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
]) {
  process.once(signal, () => {
    reader.close();
    process.exit(code);
  });
}
try {
  await reader.start();
  if (values.only !== undefined && !reader.formats.includes(values.only)) {
    console.error(
      `error[MTL_FLAG_VALUE]: --only ${values.only}; expected one of ${reader.formats.join(', ')}`,
    );
    process.exitCode = 2;
  } else {
    const formats = values.only === undefined ? reader.formats : [values.only];
    for (const format of formats) {
      for (const input of readCorpus(format))
        await runOne(reader, { format, seed: values.seed, index: 0, input });
    }
    const deadline = seconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + 1000 * seconds;
    const isOver = () => performance.now() > deadline || failures.length >= 50;
    for (let index = 0; index < numCases && !isOver(); index++) {
      for (const format of formats) {
        if (!isOver()) await runOne(reader, { format, seed: values.seed, index });
      }
    }
    for (const [format, { cases, read, refused }] of counts) {
      console.log(`${format}: ${cases} files, ${read} read, ${refused} refused`);
    }
    console.log(failures.length === 0 ? 'no failures' : `${failures.length} failures`);
    process.exitCode = failures.length === 0 ? 0 : 1;
  }
} finally {
  reader.close();
}
