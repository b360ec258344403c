import type { ProcessGroup } from '@mtl/comm';
import { type Device, Tensor } from '@mtl/kernels';

/**
 * Returns CLOCK_MONOTONIC in nanoseconds. All processes of a host share this clock, and the traces of
 * @mtl/comm use it.
 */
export function nowNs(): number {
  return Number(process.hrtime.bigint());
}

/** Engines whose ranks are all on one host and therefore share a monotonic clock. */
const sharingClock: readonly string[] = ['local', 'memory', 'single'];

/** The number of round trips to each rank. The fastest round trip determines the offset. */
const numRounds = 16;

interface ClockOffsetOptions {
  /** All ranks whose clocks are compared. Every rank must call `clockOffset`. */
  readonly group: ProcessGroup;
  /** Returns the time on this rank's clock, in nanoseconds. */
  readonly now: () => number;
  readonly device: Device;
  /** True if all ranks use the same clock. The default depends on the engine. */
  readonly isShared?: boolean;
}

/**
 * Returns the offset, in nanoseconds, that converts times of this rank to the clock of the group's first
 * rank. If ranks do not share a clock, the offset is estimated from the fastest of several round trips
 * (Cristian 1989). Its error is at most half the duration of this round trip.
 */
export function clockOffset({ group, now, device, isShared }: ClockOffsetOptions): number {
  if (group.size === 1 || (isShared ?? sharingClock.includes(group.engine))) return 0;
  const tensor = Tensor.zeros({ shape: [1], dtype: 'float64', device });
  try {
    return group.rank === 0 ? answerAll({ group, now, tensor }) : askFirst({ group, now, tensor });
  } finally {
    tensor.dispose();
  }
}

interface ClockMessages {
  readonly group: ProcessGroup;
  readonly now: () => number;
  readonly tensor: Tensor;
}

function answerAll({ group, now, tensor }: ClockMessages): number {
  for (let other = 1; other < group.size; other++) {
    for (let round = 0; round < numRounds; round++) {
      group.receive(tensor, { from: other }).wait();
      // read() waits for the device, so the time is taken after the other rank's message has arrived
      tensor.read();
      tensor.write(Float64Array.of(now()));
      group.send(tensor, { to: other }).wait();
    }
  }
  return 0;
}

function askFirst({ group, now, tensor }: ClockMessages): number {
  let best = { roundTrip: Number.POSITIVE_INFINITY, offset: 0 };
  for (let round = 0; round < numRounds; round++) {
    const asked = now();
    group.send(tensor, { to: 0 }).wait();
    group.receive(tensor, { from: 0 }).wait();
    const theirs = tensor.item();
    const answered = now();
    const roundTrip = answered - asked;
    if (roundTrip < best.roundTrip) best = { roundTrip, offset: theirs - (asked + answered) / 2 };
  }
  return best.offset;
}
