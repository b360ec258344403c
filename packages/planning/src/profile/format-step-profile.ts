import { alignColumns } from '../align-columns.js';
import type { ProfiledOperation, StepProfile } from './operation-profile.js';
import { leastSeconds, type Roofline } from './roofline.js';

/** The maximum number of matmul sizes in the list. It contains the sizes that take the most time. */
const numListedMatmuls = 16;
/** An operation has a separate line if it takes at least this fraction of a step. */
const leastPart = 0.002;

/**
 * Formats the times of profiled steps as two tables: one lists operations, the other lists matmuls by their
 * sizes.
 */
export function formatStepProfile(profile: StepProfile, roofline: Roofline): string {
  const { numSteps, seconds, waitedSeconds, operations } = profile;
  const total = operations.reduce((sum, operation) => sum + operation.seconds, 0);
  const rest = Math.max(0, seconds - total - waitedSeconds);
  const line = (name: string, operation: ProfiledOperation): string[] => [
    name,
    operation.dtype,
    (operation.calls / numSteps).toFixed(0),
    ...formatTime(operation.seconds, profile),
    operation.flops === 0 ? '' : (operation.flops / operation.seconds / 1e9).toFixed(0),
    (operation.bytes / operation.seconds / 1e9).toFixed(1),
    percent(leastSeconds(operation, roofline) / operation.seconds),
  ];
  // the time that the operations would take at the roofline's rates, as a fraction of the measured time
  const all = (name: string, some: readonly ProfiledOperation[]): string[] => {
    const least = some.reduce((sum, operation) => sum + leastSeconds(operation, roofline), 0);
    return [...[name, '', ''], ...formatTime(total, profile), ...['', '', percent(least / total)]];
  };
  const withoutWork = (name: string, itsSeconds: number): string[] => [
    ...[name, '', ''],
    ...formatTime(itsSeconds, profile),
    ...['', '', ''],
  ];
  const columns = ['dtype', 'calls', 'ms', 'of step', 'GFLOP/s', 'GB/s', 'of roofline'];
  const named = byName(operations);
  const few = named.filter((operation) => operation.seconds < leastPart * seconds);
  const matmuls = operations.filter(({ sizes }) => sizes !== undefined).slice(0, numListedMatmuls);
  return [
    `profile of ${numSteps} steps, means of one: ${milliseconds(seconds / numSteps)} ms`,
    ...alignColumns(
      [
        ['operation', ...columns],
        ...named.filter((one) => !few.includes(one)).map((operation) => line(operation.name, operation)),
        withoutWork(
          'other operations',
          few.reduce((sum, operation) => sum + operation.seconds, 0),
        ),
        all('all operations', operations),
        withoutWork('waiting for other ranks', waitedSeconds),
        withoutWork('the rest: TypeScript, threads, data', rest),
      ],
      isNumber,
    ),
    '',
    ...alignColumns(
      [
        ['matmul, rows x columns x depth', ...columns],
        ...matmuls.map((operation) => line(`${operation.name} ${operation.sizes}`, operation)),
      ],
      isNumber,
    ),
    '',
    ...describeRoofline(roofline),
  ].join('\n');
}

/** Sums the times of operations by name and dtype, over all sizes. */
function byName(operations: readonly ProfiledOperation[]): ProfiledOperation[] {
  const all = new Map<string, ProfiledOperation>();
  for (const operation of operations) {
    const key = `${operation.name} ${operation.dtype}`;
    const known = all.get(key);
    if (known === undefined) all.set(key, { ...operation, sizes: undefined });
    else for (const sum of ['calls', 'seconds', 'flops', 'bytes'] as const) known[sum] += operation[sum];
  }
  return [...all.values()].sort((a, b) => b.seconds - a.seconds);
}

const formatTime = (seconds: number, { numSteps, seconds: all }: StepProfile): string[] => [
  milliseconds(seconds / numSteps),
  percent(seconds / all),
];

function describeRoofline({ flopsPerSecond, bytesPerSecond }: Roofline): string[] {
  const matmuls = Object.entries(flopsPerSecond).map(
    ([dtype, rate]) => `${(rate / 1e9).toFixed(0)} in ${dtype}`,
  );
  const memory = `a sum in memory ${(bytesPerSecond / 1e9).toFixed(1)} GB/s`;
  return [
    'roofline, measured here on the threads of this rank:',
    `  a matmul of 1,024 x 1,024 x 1,024 ${matmuls.join(' and ')} GFLOP/s, ${memory}`,
    '  bytes count every operand once; above 100 % an operation found them in the caches',
  ];
}

/** Returns true if a column contains numbers. Only the first column contains names. */
const isNumber = (column: number): boolean => column > 0;
const milliseconds = (seconds: number): string => (1000 * seconds).toFixed(2);
const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;
