import { ConfigurationError } from '@mtl/errors';
import {
  formatAction,
  type PassKind,
  type PipelineSchedule,
  type ScheduleAction,
} from './schedules/pipeline-schedule.js';
import { checkSchedule } from './simulator/check-schedule.js';

/**
 * Formats the schedule in the file format that `parseScheduleCsv` reads. Each rank has a line with its
 * actions in order, separated by commas.
 */
export function formatScheduleCsv({ actions }: PipelineSchedule): string {
  return actions.map((order) => `${order.map(formatAction).join(',')}\n`).join('');
}

/**
 * Parses a schedule file. Line r contains the actions of rank r - 1 in order, separated by commas. An action
 * consists of chunk, kind (F, B, I or W) and micro-batch, as in `0F0,0F1,0B0,0B1`. Chunks and micro-batches
 * are counted from 0. Empty cells (idle slots) and blanks around a cell are skipped. Chunks are numbered in
 * the order of the model, and each belongs to the rank of its line. PyTorch's schedule files of compute
 * actions have this format.
 *
 * `name`: the name of the schedule, which errors also show as the name of the file
 *
 * @throws ConfigurationError `MTL_SCHEDULE_CSV` for a cell that is not an action, a chunk in two lines, a
 * missing
 *   chunk, or the first problem that `checkSchedule` finds; the message names the line and cell
 */
export function parseScheduleCsv(text: string, { name }: { readonly name: string }): PipelineSchedule {
  const lines = text.replace(/\r?\n$/, '').split(/\r?\n/);
  const actions = lines.map((line, index) => parseLine(line, `${name}, line ${index + 1}`));
  const placement = readPlacement(actions, name);
  const microBatches = new Set(actions.flatMap((order) => order.map(({ microBatch }) => microBatch)));
  const numMicroBatches = countOfAll(microBatches, { what: 'micro-batch', name });
  const schedule = { name, numMicroBatches, placement, actions };
  const [problem] = checkSchedule(schedule);
  if (problem === undefined) return schedule;
  const { rank } = problem;
  throw new ConfigurationError(
    'MTL_SCHEDULE_CSV',
    rank === undefined ? `${name}: ${problem.message}` : `${name}, line ${rank + 1}: ${problem.message}`,
    { details: { ...problem, ...(rank === undefined ? {} : { line: rank + 1 }) } },
  );
}

const cellPattern = /^(0|[1-9]\d{0,8})([FBIW])(0|[1-9]\d{0,8})$/;

function parseLine(line: string, where: string): ScheduleAction[] {
  const order: ScheduleAction[] = [];
  line.split(',').forEach((raw, index) => {
    const cell = raw.trim();
    if (cell === '') return;
    const match = cellPattern.exec(cell);
    if (match !== null) {
      order.push({ chunk: Number(match[1]), kind: match[2] as PassKind, microBatch: Number(match[3]) });
      return;
    }
    const isOther = /SEND|RECV|SHARD|REDUCE/.test(cell);
    throw new ConfigurationError(
      'MTL_SCHEDULE_CSV',
      `${where}, cell ${index + 1}: ${JSON.stringify(cell.slice(0, 40))} is no action`,
      {
        expected: 'chunk, F, B, I or W, and micro-batch, as in 0F3',
        ...(isOther ? { remedy: 'leave communication out: it follows from the order of the passes' } : {}),
      },
    );
  });
  if (order.length > 0) return order;
  throw new ConfigurationError('MTL_SCHEDULE_CSV', `${where}: no actions`, {
    expected: 'one line for each rank, and nothing after the last',
  });
}

function readPlacement(actions: ReadonlyArray<readonly ScheduleAction[]>, name: string): number[] {
  const ranks = new Map<number, number>();
  actions.forEach((order, rank) => {
    for (const { chunk } of order) {
      const other = ranks.get(chunk) ?? rank;
      if (other !== rank) {
        throw new ConfigurationError(
          'MTL_SCHEDULE_CSV',
          `${name}, line ${rank + 1}: chunk ${chunk} already stands in line ${other + 1}`,
          { expected: 'each chunk of the model on one rank' },
        );
      }
      ranks.set(chunk, rank);
    }
  });
  const numChunks = countOfAll(new Set(ranks.keys()), { what: 'chunk', name });
  return Array.from({ length: numChunks }, (_, chunk) => ranks.get(chunk)!);
}

/**
 * Returns the number of distinct values in `numbers`, which must be all integers from 0 to the largest value.
 */
function countOfAll(
  numbers: ReadonlySet<number>,
  { what, name }: { readonly what: string; readonly name: string },
): number {
  for (let number = 0; number < numbers.size; number++) {
    if (numbers.has(number)) continue;
    const largest = [...numbers].reduce((most, other) => Math.max(most, other));
    throw new ConfigurationError('MTL_SCHEDULE_CSV', `${name}: no rank has ${what} ${number}`, {
      expected: `every number from 0 to ${largest}, the largest in the file`,
    });
  }
  return numbers.size;
}
