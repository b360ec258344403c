import type { PipelineSchedule, ScheduleAction } from '../schedules/pipeline-schedule.js';

/**
 * A boundary tensor in transfer: a chunk's forward result for the next chunk, or a gradient for the previous
 * chunk.
 */
export interface Transfer {
  readonly what: 'forward' | 'gradient';
  /** The chunk that produced the tensor. */
  readonly chunk: number;
  readonly microBatch: number;
  /**
   * The rank at the other end of the transfer; undefined if both chunks are on this rank and nothing is sent.
   */
  readonly peer: number | undefined;
}

/** An action of a rank, with its boundary tensors and the receives to post. */
export interface PlannedAction {
  readonly action: ScheduleAction;
  /** The boundary tensor that the action needs, from a neighbouring chunk. */
  readonly input: Transfer | undefined;
  /** The boundary tensor that the action produces, for a neighbouring chunk. */
  readonly output: Transfer | undefined;
  /**
   * How many of the plan's receives are posted before the action starts. They include the receives of the
   * action itself and of the next action with receives.
   */
  readonly numReceives: number;
  /** True if the weight gradients of the action's chunk are complete after the action. */
  readonly completesChunk: boolean;
}

/** The actions and messages of a rank in a step. */
export interface MessagePlan {
  readonly actions: readonly PlannedAction[];
  /**
   * The receives, in the order of posting. Receives from the same sender are in the order in which it sends.
   */
  readonly receives: readonly Transfer[];
}

/**
 * Plans the sends and receives of a rank. Messages between two ranks have no tags and match in order.
 * Therefore the receiver posts all its receives, for forward results and for gradients, in the order of the
 * sender's actions. If the schedule has no deadlock, the plan has none either, because the sender sends
 * message A before message B if the receiver needs A before B.
 */
export function planMessages(
  schedule: PipelineSchedule,
  { rank, passes = 'all' }: { readonly rank: number; readonly passes?: 'all' | 'forward' },
): MessagePlan {
  const selectPasses = (member: number): readonly ScheduleAction[] =>
    schedule.actions[member]!.filter(({ kind }) => passes === 'all' || kind === 'F');
  const own = selectPasses(rank);
  const inputs = own.map((action) => findInput(action, schedule));
  const senders = new Set(inputs.map((input) => input?.peer));
  const incoming = schedule.actions.map((_, sender) => {
    if (!senders.has(sender)) return [];
    const outputs = selectPasses(sender).map((action) => findOutput(action, schedule));
    return outputs.filter((output) => output?.peer === rank).map((output) => ({ ...output!, peer: sender }));
  });
  const { receives, numNeeded } = postingOrder(inputs, incoming);
  const completing = new Map<number, number>();
  own.forEach(({ kind, chunk }, position) => {
    if (kind === 'B' || kind === 'W') completing.set(chunk, position);
  });
  let numWithNext = receives.length;
  const numReceives = own.map(() => 0);
  for (let position = own.length - 1; position >= 0; position--) {
    numReceives[position] = numWithNext;
    if (inputs[position]?.peer !== undefined) numWithNext = numNeeded[position]!;
  }
  return {
    receives,
    actions: own.map((action, position) => ({
      action,
      input: inputs[position],
      output: findOutput(action, schedule),
      numReceives: numReceives[position]!,
      completesChunk: completing.get(action.chunk) === position,
    })),
  };
}

/** Returns a key that identifies a boundary tensor within a step. */
export function formatKey({ what, chunk, microBatch }: Omit<Transfer, 'peer'>): string {
  return `${what} ${chunk} ${microBatch}`;
}

function findInput(
  { kind, chunk, microBatch }: ScheduleAction,
  schedule: PipelineSchedule,
): Transfer | undefined {
  if (kind === 'W') return undefined;
  const what = kind === 'F' ? 'forward' : 'gradient';
  const maker = kind === 'F' ? chunk - 1 : chunk + 1;
  return transfer({ what, chunk: maker, microBatch }, { here: chunk, there: maker, schedule });
}

function findOutput(
  { kind, chunk, microBatch }: ScheduleAction,
  schedule: PipelineSchedule,
): Transfer | undefined {
  if (kind === 'W') return undefined;
  const what = kind === 'F' ? 'forward' : 'gradient';
  const user = kind === 'F' ? chunk + 1 : chunk - 1;
  return transfer({ what, chunk, microBatch }, { here: chunk, there: user, schedule });
}

function transfer(
  tensor: Omit<Transfer, 'peer'>,
  { here, there, schedule }: { here: number; there: number; schedule: PipelineSchedule },
): Transfer | undefined {
  const other = schedule.placement[there];
  if (other === undefined) return undefined;
  return { ...tensor, peer: other === schedule.placement[here] ? undefined : other };
}

/**
 * Returns the receives in the order of posting, and `numNeeded`: for each action, the number of receives that
 * must be posted before its inputs can arrive.
 */
function postingOrder(
  inputs: ReadonlyArray<Transfer | undefined>,
  incoming: ReadonlyArray<readonly Transfer[]>,
): { readonly receives: readonly Transfer[]; readonly numNeeded: readonly number[] } {
  const receives: Transfer[] = [];
  const posted = new Set<string>();
  const numPosted = incoming.map(() => 0);
  const numNeeded = inputs.map((input) => {
    if (input?.peer === undefined) return receives.length;
    while (!posted.has(formatKey(input))) {
      const next = incoming[input.peer]![numPosted[input.peer]!++]!;
      posted.add(formatKey(next));
      receives.push(next);
    }
    return receives.length;
  });
  return { receives, numNeeded };
}

/**
 * Returns the number of boundary tensors that each rank keeps during each of its actions: tensors with a
 * posted receive, and tensors that a chunk has made for another chunk of the same rank. The tensor that the
 * action itself uses does not count.
 */
export function waitingTensors(schedule: PipelineSchedule): ReadonlyArray<readonly number[]> {
  return schedule.actions.map((_, rank) => {
    let [numTaken, numHere] = [0, 0];
    return planMessages(schedule, { rank }).actions.map(({ input, output, numReceives }) => {
      if (input !== undefined) {
        if (input.peer === undefined) numHere--;
        else numTaken++;
      }
      const waiting = numReceives - numTaken + numHere;
      if (output !== undefined && output.peer === undefined) numHere++;
      return waiting;
    });
  });
}
