import { type CommunicationPart, communicationPart, communicationParts } from '@mtl/layout';
import type { CollectiveOperation, Operation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds } from './collective-seconds.js';
import { hardwareTimes } from './hardware-times.js';
import type { OperationTimes } from './measured-times.js';

/**
 * Seconds of a pass by kind of work. Communication, by axis, is the time that does not overlap, and the
 * slowdown by the overlapped part.
 */
export interface PassSeconds extends Record<CommunicationPart, number> {
  matmuls: number;
  attention: number;
  kernels: number;
  /** Seconds for which the GPU waits for the host to start operations. */
  host: number;
}

export function noSeconds(): PassSeconds {
  return { matmuls: 0, attention: 0, kernels: 0, ...communicationParts(() => 0), host: 0 };
}

/** Returns the time of operations that run in sequence on one GPU. */
export function operationsSeconds(operations: readonly Operation[], profile: Profile): PassSeconds {
  const pass = new PassClock(profile);
  for (const operation of operations) pass.run(operation);
  const { seconds } = pass;
  const hostSeconds = operations.length * profile.software.hostSecondsPerOperation.value;
  seconds.host = Math.max(0, hostSeconds - passSeconds(seconds));
  return seconds;
}

/** Returns the sum of the parts. */
export function passSeconds(seconds: PassSeconds): number {
  return Object.values(seconds).reduce((sum: number, value: number) => sum + value, 0);
}

/**
 * Simulates the time of a pass. Collectives that were started run in sequence, and overlap with computation.
 */
class PassClock {
  readonly seconds = noSeconds();
  readonly #profile: Profile;
  readonly #times: OperationTimes;
  /** The remaining seconds of started collectives, in the order of their starts. */
  readonly #running = new Map<number, { readonly collective: CollectiveOperation; remaining: number }>();

  constructor(profile: Profile) {
    this.#profile = profile;
    this.#times = hardwareTimes(profile.hardware);
  }

  run(operation: Operation): void {
    switch (operation.kind) {
      case 'matmul':
        this.#compute(operation.time, this.#times.matmul(operation));
        return;
      case 'kernel':
        this.#compute(operation.time, this.#times.kernel(operation));
        return;
      case 'fused-attention':
        this.#compute('attention', this.#times.attention(operation));
        return;
      case 'collective':
        this.#communicate(operation, collectiveSeconds(operation, this.#profile));
        return;
      case 'start':
        this.#running.set(operation.id, {
          collective: operation.collective,
          remaining: collectiveSeconds(operation.collective, this.#profile),
        });
        return;
      case 'wait':
        this.#wait(operation.id);
        return;
      case 'hidden-collective': {
        const computing = this.#times.matmul(operation.behind);
        const communicating = collectiveSeconds(operation.collective, this.#profile);
        this.seconds[operation.behind.time] += computing;
        this.#communicate(
          operation.collective,
          Math.max(0, communicating - computing) +
            Math.min(communicating, computing) * this.#profile.hardware.overlapCost.value,
        );
      }
    }
  }

  #compute(time: 'matmuls' | 'attention' | 'kernels', seconds: number): void {
    this.seconds[time] += seconds;
    let left = seconds;
    for (const running of this.#running.values()) {
      if (left <= 0) break;
      const hidden = Math.min(left, running.remaining);
      left -= hidden;
      running.remaining -= hidden;
      this.#communicate(running.collective, hidden * this.#profile.hardware.overlapCost.value);
    }
  }

  #communicate({ group }: CollectiveOperation, seconds: number): void {
    this.seconds[communicationPart(group.axis)] += seconds;
  }

  /** Waits for a collective. A collective that another pass started has ended by then. */
  #wait(id: number): void {
    for (const [each, { collective, remaining }] of this.#running) {
      if (each > id) break;
      this.#communicate(collective, remaining);
      this.#running.delete(each);
    }
  }
}
