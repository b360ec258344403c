import { cpus } from 'node:os';
import { hostInformation } from '@mtl/kernels';
import type { MeasuredRates, Profile } from '@mtl/planner';

export interface CalibratedProfileOptions {
  /** Rates of one process, and of several. */
  readonly rates: readonly MeasuredRates[];
  /** Processes that the machine is full with. */
  readonly numProcesses: number;
  readonly measuredAt: Date;
}

/** A profile of this machine from what was measured on it. */
export function calibratedProfile(options: CalibratedProfileOptions): Profile {
  const { rates, numProcesses, measuredAt } = options;
  const source = `measured by mtl calibrate on ${measuredAt.toISOString().slice(0, 10)}`;
  const constant = (value: number, from = source) => ({ value, source: from });
  const { instructionSet, onednnVersion } = hostInformation();
  const shared = rates.find(({ collectives }) => collectives !== undefined);
  const messages = shared?.collectives?.find(({ name }) => name === 'message')?.points;
  const [shortest, longest] = [messages?.[0], messages?.at(-1)];
  const assumed = 'assumed: nothing to measure with one process';
  return {
    name: 'this-machine',
    hardware: {
      version: 1,
      name: 'this-machine',
      device: `${cpus()[0]?.model.trim() ?? 'CPU'}, ${numProcesses} cores, ${instructionSet}, oneDNN ${onednnVersion}`,
      state: 'measured',
      memoryBytes: constant(rates[0]!.memoryBytes ?? 1),
      gpusPerNode: constant(numProcesses),
      rates: [...rates],
      linkInside: {
        bytesPerSecond: longest ? constant(longest.bytes / longest.seconds) : constant(1e9, assumed),
        efficiency: constant(1, longest ? source : assumed),
        latencySeconds: shortest ? constant(shortest.seconds) : constant(1e-5, assumed),
      },
      overlapCost: constant(1, 'assumed: threads that communicate share the cores that compute'),
    },
    software: {
      version: 1,
      name: 'mtl',
      description: '@mtl: what a dry run records',
      source,
      operations: 'recorded',
      hostSecondsPerOperation: constant(1e-9, 'part of the times of operations'),
      linkFactor: constant(1, 'nothing was measured between machines'),
    },
  };
}
