import type { MetaOperation } from '@mtl/comm';
import type { GroupUse } from '@mtl/planner';
import type { GroupNamed } from './rank-groups.js';

interface Use {
  hasCollectives: boolean;
  readonly receivers: Set<number>;
  readonly senders: Set<number>;
}

/** Which groups a rank of a dry run communicates in on its device, and how. */
export class UsedGroups {
  readonly #groupNamed: GroupNamed;
  readonly #communicatorOf: (name: string) => string;
  readonly #uses = new Map<string, Use>();

  /** @param communicatorOf see `communicatorNames` */
  constructor(groupNamed: GroupNamed, communicatorOf: (name: string) => string) {
    this.#groupNamed = groupNamed;
    this.#communicatorOf = communicatorOf;
  }

  add({ group: name, operation, isOnDevice, peer }: MetaOperation): void {
    if (!isOnDevice) return;
    const group = this.#communicatorOf(name);
    const use = this.#uses.get(group) ?? {
      hasCollectives: false,
      receivers: new Set<number>(),
      senders: new Set<number>(),
    };
    this.#uses.set(group, use);
    if (operation === 'send') use.receivers.add(peer!);
    else if (operation === 'receive') use.senders.add(peer!);
    else use.hasCollectives = true;
  }

  /** In the order of their first operations. */
  uses(): GroupUse[] {
    return [...this.#uses].map(([name, { hasCollectives, receivers, senders }]) => ({
      group: this.#groupNamed(name),
      hasCollectives,
      numReceivers: receivers.size,
      numSenders: senders.size,
    }));
  }
}
