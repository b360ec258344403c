import { type CommunicationPart, communicationPart, communicationParts } from '@mtl/layout';
import type { CollectiveOperation, Operation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds } from './collective-seconds.js';
import { hardwareTimes } from './hardware-times.js';
import type { OperationTimes } from './measured-times.js';

/**
 * Seconds that a forward or backward pass takes, by kind of work. The communication along an axis counts with
 * the time that does not overlap with computation, plus the slowdown caused by the overlapped part.
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

/** A collective that has been started, and how many seconds of it remain. */
interface RunningCollective {
  readonly id: number;
  readonly collective: CollectiveOperation;
  remaining: number;
}

/**
 * Simulates how long a forward or backward pass takes. Collectives that were started overlap with
 * computation. The collectives of one group run in sequence; collectives of different groups run at the same
 * time, because the groups have separate communicators.
 */
class PassClock {
  readonly seconds = noSeconds();
  readonly #profile: Profile;
  readonly #times: OperationTimes;
  /** The started collectives of each group, in the order of their starts. */
  readonly #queues = new Map<string, RunningCollective[]>();

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
        this.#start(operation);
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
    const { value: cost } = this.#profile.hardware.overlapCost;
    for (const queue of this.#queues.values()) {
      advance(queue, seconds, (collective, hidden) => this.#communicate(collective, hidden * cost));
    }
  }

  #start({ id, collective }: { readonly id: number; readonly collective: CollectiveOperation }): void {
    const { axis, role = axis } = collective.group;
    const queue = this.#queues.get(role) ?? [];
    this.#queues.set(role, queue);
    queue.push({ id, collective, remaining: collectiveSeconds(collective, this.#profile) });
  }

  #communicate({ group }: CollectiveOperation, seconds: number): void {
    this.seconds[communicationPart(group.axis)] += seconds;
  }

  /** Waits for a collective. A collective that an earlier pass started has already ended. */
  #wait(id: number): void {
    const queue = [...this.#queues.values()].find((each) => each.some((running) => running.id === id));
    const last = queue?.findIndex((running) => running.id === id) ?? -1;
    let waited = 0;
    for (const { collective, remaining } of queue?.splice(0, last + 1) ?? []) {
      this.#communicate(collective, remaining);
      waited += remaining;
    }
    // the collectives of other groups go on
    for (const other of this.#queues.values()) if (other !== queue) advance(other, waited, () => {});
  }
}

/**
 * Runs the collectives of a queue for `seconds` seconds. `onRun` receives each collective and the seconds
 * that it ran.
 */
function advance(
  queue: readonly RunningCollective[],
  seconds: number,
  onRun: (collective: CollectiveOperation, seconds: number) => void,
): void {
  let left = seconds;
  for (const running of queue) {
    if (left <= 0) return;
    const hidden = Math.min(left, running.remaining);
    left -= hidden;
    running.remaining -= hidden;
    onRun(running.collective, hidden);
  }
}
