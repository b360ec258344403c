import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  calibratedProfilePath,
  type MeasuredRates,
  type Profile,
  parseProfile,
  peakFlops,
} from '@mtl/cost-model';
import { ConfigurationError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import { type CudaProbe, findGpu, openCuda } from '@mtl/kernels/internal';
import {
  calibratedProfile,
  chooseCollectiveBytes,
  keepMatmulChoices,
  measureRates,
  referenceRuns,
} from '@mtl/planning';
import { joinProcesses } from '@mtl/runs/internal';
import { type Command, Option } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { choiceOption, countOption } from '../command-line/option-values.js';
import { formatTable } from '../terminal/report-text.js';
import { launchOnThisHost } from './run/launcher/launcher.js';
import { resolveProgram } from './run/launcher/resolve-program.js';
import { summaries } from './summaries.js';

interface CalibrateFlags {
  readonly device: 'cpu' | 'cuda';
  readonly output?: string;
  readonly json?: true;
  readonly quick?: true;
  /**
   * The file for the first process's results, and the number of threads. Set only in processes that measure.
   */
  readonly rates?: string;
  readonly threads?: number;
}

const notes = `
Trains small models with known sizes, without data and without communication, and times their matmuls, attention, other
kernels and optimizer: on one process with one thread, on one with all cores, and on several at once, which share caches
and memory. Then times collectives and messages between them. Takes about two minutes; run nothing else meanwhile.

On CPUs it also times our kernels and oneDNN for each of these matmuls. The choices are kept in the cache directory of the
user, where runs with --time-matmuls find them.

With --device cuda models of one layer are trained in bfloat16, on one GPU and on all of this machine at once. Times are
measured on the GPU; what the host takes to start an operation is measured apart.

mtl plan without --profile then predicts runs on this machine. MTL_PROFILE names another file for it.`;

/** Creates the command `mtl calibrate`, which measures a profile of this machine. */
export function calibrateCommand(): Command {
  return newCommand('calibrate', summaries.calibrate)
    .addOption(choiceOption('--device <device>', 'What is measured.', ['cpu', 'cuda']).default('cpu'))
    .option(
      '--output <file>',
      'The profile to write. [the file that MTL_PROFILE names, or ~/.config/mtl/profile.json]',
    )
    .option('--quick', 'Times small models only, in seconds: larger ones are extrapolated.')
    .option('--json', 'Prints the profile.')
    .addOption(new Option('--rates <file>').hideHelp())
    .addOption(countOption('--threads <n>', '').hideHelp())
    .addHelpText('after', notes)
    .action(calibrate);
}

async function calibrate(flags: CalibrateFlags): Promise<void> {
  if (flags.rates !== undefined) {
    await measureAsRank(flags.rates, flags);
    return;
  }
  const path = flags.output ?? calibratedProfilePath(process.env);
  const gpus = flags.device === 'cuda' ? findGpus() : undefined;
  const numProcesses = gpus?.devices.length ?? availableParallelism();
  const layouts = gpus === undefined ? listLayouts(numProcesses) : layoutsOfGpus(numProcesses);
  const directory = mkdtempSync(join(tmpdir(), 'mtl-calibrate-'));
  try {
    const rates: MeasuredRates[] = [];
    for (const [index, layout] of layouts.entries()) {
      process.stderr.write(`measuring ${index + 1} of ${layouts.length}: ${formatTitle(layout, gpus)}\n`);
      const file = join(directory, `${index}.json`);
      const quick = flags.quick === true ? ['--quick'] : [];
      const measured = ['--rates', file, '--threads', `${layout.numThreads}`, '--device', flags.device];
      await launchOnThisHost({
        numProcesses: layout.numProcesses,
        script: resolveProgram('mtl'),
        args: ['calibrate', ...measured, ...quick],
      });
      rates.push(JSON.parse(readFileSync(file, 'utf8')) as MeasuredRates);
    }
    const measured = calibratedProfile({ rates, numProcesses, measuredAt: new Date(), gpus });
    const profile = parseProfile(JSON.parse(JSON.stringify(measured)), 'the calibration');
    publish(path, JSON.stringify(profile));
    if (flags.json === true) process.stdout.write(`${JSON.stringify(profile)}\n`);
    else process.stdout.write(`${formatCalibration(profile)}wrote ${path}\n`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * Returns the GPUs of this machine.
 *
 * @throws the KernelError of `openCuda` if there is no GPU
 */
function findGpus(): CudaProbe {
  const { probe, device, error } = findGpu();
  if (probe !== undefined && device !== undefined) return probe;
  if (error !== undefined) throw error;
  openCuda(); // names what is missing
  throw new Error('a GPU was opened that the driver does not list');
}

interface ProcessLayout {
  readonly numProcesses: number;
  readonly numThreads: number;
}

/**
 * Returns the layouts of processes and threads to measure on a CPU with `numCores` cores: one process with
 * one core, one process with all cores, two processes, and the largest number of processes.
 */
export function listLayouts(numCores: number): ProcessLayout[] {
  const all = [
    { numProcesses: 1, numThreads: 1 },
    { numProcesses: 1, numThreads: numCores },
    { numProcesses: 2, numThreads: Math.floor(numCores / 2) },
    { numProcesses: numCores, numThreads: 1 },
  ].filter(({ numProcesses, numThreads }) => numThreads > 0 && numProcesses * numThreads <= numCores);
  return [...new Map(all.map((each) => [JSON.stringify(each), each])).values()];
}

/**
 * Returns the layouts to measure on GPUs: one process alone, and one process for each GPU. The processes use
 * all CPU cores, because they make the initial weights.
 */
const layoutsOfGpus = (numGpus: number): ProcessLayout[] =>
  [...new Set([1, numGpus])].map((numProcesses) => ({
    numProcesses,
    numThreads: Math.max(1, Math.floor(availableParallelism() / numProcesses)),
  }));

function formatTitle({ numProcesses, numThreads }: ProcessLayout, gpus: CudaProbe | undefined): string {
  if (gpus === undefined) return `${numProcesses} process(es) of ${numThreads} thread(s)`;
  return `${numProcesses} x ${gpus.devices[0]!.name}`;
}

async function measureAsRank(file: string, { threads = 1, quick, device }: CalibrateFlags): Promise<void> {
  const { world } = await joinProcesses({ variables: process.env, timeoutMinutes: undefined, device });
  const isEmulated = device === 'cuda' && findGpu().isEmulated;
  const extent = isEmulated ? 'smallest' : quick === true ? 'quick' : 'all';
  const runs = referenceRuns({ device, extent });
  const rates = await measureRates({
    world,
    numThreads: threads,
    runs,
    collectiveBytes: chooseCollectiveBytes({ device, extent }),
    device,
  });
  if (world === undefined || world.rank === 0) writeFileSync(file, JSON.stringify(rates));
  world?.close();
  if (world !== undefined || device === 'cuda') return;
  const { path, numNew } = await keepMatmulChoices({ runs, variables: process.env });
  process.stderr.write(`algorithms of matmuls: ${numNew} chosen by time, kept in ${path}\n`);
}

/** Writes a file atomically, with one rename. */
function publish(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, `${text}\n`);
    renameFileSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new ConfigurationError('MTL_FLAG_VALUE', `--output ${path}: ${(error as Error).message}`, {
      expected: 'a file that can be written',
      cause: error,
    });
  }
}

/**
 * The largest relative spread of measurements that is reported without a note. A larger spread indicates that
 * other processes used the machine.
 */
const tolerableSpread = 0.1;

/** Formats the measured rates as a short table. */
function formatCalibration({ hardware }: Profile): string {
  if (hardware.state !== 'measured') return '';
  const isOfGpu = hardware.deviceType === 'cuda';
  const dtype = isOfGpu ? 'bf16' : 'fp32';
  const spreads = hardware.rates.map(measureSpread);
  const isNoisy = spreads.some((spread) => spread > tolerableSpread);
  return [
    `${hardware.device}\n`,
    ...hardware.rates.map(
      (rates, index) =>
        `${rates.numProcesses} ${isOfGpu ? 'GPU(s)' : `process(es) of ${rates.numThreads} thread(s)`}\n` +
        formatTable([
          ['matmuls', `up to ${gigaflops(peakFlops({ ...hardware, rates: [rates] }, dtype))} in ${dtype}`],
          ['memory', `up to ${gigabytes(Math.max(...kernelRates(rates)))} in kernels`],
          ...hostLines(rates),
          ...collectiveLines(rates),
          ['spread', `${(100 * spreads[index]!).toFixed(1)} %, median of all times`],
        ]),
    ),
    ...(isNoisy
      ? ['note: times varied by more than 10 %: other programs ran on this machine; calibrate it again\n']
      : []),
  ].join('');
}

const gigaflops = (rate: number): string => `${(rate / 1e9).toFixed(1)} GFLOP/s`;
const gigabytes = (rate: number): string => `${(rate / 1e9).toFixed(1)} GB/s`;

const kernelRates = ({ kernels }: MeasuredRates): number[] =>
  kernels.flatMap(({ points }) => points.map(({ bytes, seconds }) => bytes / seconds));

function hostLines({ host }: MeasuredRates): [string, string][] {
  if (host?.operationSeconds === undefined) return [];
  const operation = `${(1e6 * host.operationSeconds).toFixed(1)} us for an operation`;
  return [['host', `${operation}, ${(1e3 * host.stepSeconds).toFixed(2)} ms for a step`]];
}

function collectiveLines({ collectives = [] }: MeasuredRates): [string, string][] {
  return collectives.map(({ name, points }) => {
    const [shortest, longest] = [points[0]!, points.at(-1)!];
    const microseconds = (1e6 * shortest.seconds).toFixed(0);
    return [name, `${microseconds} us and ${gigabytes(longest.bytes / longest.seconds)}`];
  });
}

function measureSpread({ matmuls, attention, kernels, collectives = [] }: MeasuredRates): number {
  const spreads = [...matmuls, ...attention, ...kernels, ...collectives]
    .flatMap((entry) => entry.points.map(({ spread = 0 }) => spread))
    .sort((a, b) => a - b);
  return spreads[Math.floor(spreads.length / 2)] ?? 0;
}
