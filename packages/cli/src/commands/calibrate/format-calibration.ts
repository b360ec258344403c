import { type MeasuredRates, type Profile, peakFlops } from '@mtl/planner';
import { formatTable } from '../../terminal/format-table.js';

/** Spreads above it come from other work on the machine. */
const tolerableSpread = 0.1;

/** What was measured, as a short table. */
export function formatCalibration({ hardware }: Profile): string {
  if (hardware.state !== 'measured') return '';
  const spreads = hardware.rates.map(spreadOf);
  const isNoisy = spreads.some((spread) => spread > tolerableSpread);
  return [
    `${hardware.device}\n`,
    ...hardware.rates.map(
      (rates, index) =>
        `${rates.numProcesses} process(es) of ${rates.numThreads} thread(s)\n` +
        formatTable([
          ['matmuls', `up to ${gigaflops(peakFlops({ ...hardware, rates: [rates] }, 'fp32'))} in fp32`],
          ['memory', `up to ${gigabytes(Math.max(...kernelRates(rates)))} in kernels`],
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

function collectiveLines({ collectives = [] }: MeasuredRates): [string, string][] {
  return collectives.map(({ name, points }) => {
    const [shortest, longest] = [points[0]!, points.at(-1)!];
    const microseconds = (1e6 * shortest.seconds).toFixed(0);
    return [name, `${microseconds} us and ${gigabytes(longest.bytes / longest.seconds)}`];
  });
}

function spreadOf({ matmuls, attention, kernels, collectives = [] }: MeasuredRates): number {
  const spreads = [...matmuls, ...attention, ...kernels, ...collectives]
    .flatMap((entry) => entry.points.map(({ spread = 0 }) => spread))
    .sort((a, b) => a - b);
  return spreads[Math.floor(spreads.length / 2)] ?? 0;
}
