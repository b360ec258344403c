import { ConfigurationError } from '@mtl/errors';
import type { PassTimes, PipelineSchedule } from '@mtl/pipeline/schedules';
import { Option } from 'commander';

/** Values of the flags that say how long passes take. */
export interface TimeFlags {
  readonly forwardTime: readonly number[];
  readonly backwardInputTime: readonly number[];
  readonly backwardWeightTime: readonly number[];
  readonly backwardTime?: readonly number[];
  readonly communicationTime: number;
  readonly optimizerTime: number;
}

/** An option that takes one number of 0 or more, or several with commas between them. */
export function timesOption(flags: string, description: string): Option {
  return new Option(flags, `${description}; one for all, or a list.`).argParser((value: string) => {
    const numbers = value.split(',').map((word) => (word.trim() === '' ? Number.NaN : Number(word)));
    if (numbers.every((number) => Number.isFinite(number) && number >= 0)) return numbers;
    const name = flags.split(' ')[0];
    throw new ConfigurationError('MTL_FLAG_VALUE', `${name} ${value} cannot be used`, {
      expected: 'a number of 0 or more, or several with commas between them',
    });
  });
}

/** The times of each chunk. @throws ConfigurationError `MTL_FLAG_VALUE` for a list of another length */
export function passTimesOf(flags: TimeFlags, schedule: PipelineSchedule): PassTimes {
  const { placement, actions } = schedule;
  const numHeld = actions.map((_, rank) => placement.filter((other) => other === rank).length);
  const perChunk = (flag: string, values: readonly number[]): readonly number[] => {
    if (values.length === placement.length) return values;
    if (values.length === 1 || values.length === actions.length) {
      return placement.map((rank) => (values[rank] ?? values[0]!) / numHeld[rank]!);
    }
    const perStage = `1 for all or ${actions.length}, one for each stage`;
    const isChunked = placement.length > actions.length;
    throw new ConfigurationError('MTL_FLAG_VALUE', `${flag}: ${values.length} times`, {
      expected: isChunked ? `${perStage}, or ${placement.length}, one for each chunk` : perStage,
    });
  };
  const { backwardTime } = flags;
  return {
    forward: perChunk('--forward-time', flags.forwardTime),
    backwardInput: perChunk('--backward-input-time', flags.backwardInputTime),
    backwardWeight: perChunk('--backward-weight-time', flags.backwardWeightTime),
    ...(backwardTime === undefined ? {} : { backward: perChunk('--backward-time', backwardTime) }),
    communication: flags.communicationTime,
    optimizer: flags.optimizerTime,
  };
}
