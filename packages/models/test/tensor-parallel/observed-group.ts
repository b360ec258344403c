import type { ProcessGroup, Work } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import { countedFlops } from '@mtl/kernels';

/** A call of a rank with its group, and how much it had computed by then. */
export interface TraceEvent {
  readonly kind: 'start' | 'wait';
  /** The number of the operation among all operations of the group, counted from 0. */
  readonly index: number;
  readonly operation: 'allReduce' | 'allGather' | 'reduceScatter';
  /** Elements of the full tensor: of an all-gather's output, of a reduce-scatter's input. */
  readonly size: number;
  /** Floating-point operations of this rank so far. */
  readonly flops: number;
}

/**
 * An injected fault in one operation of a group, on every rank: `drop` never communicates, `forget` never
 * waits.
 */
export interface GroupFault {
  readonly kind: 'drop' | 'forget';
  readonly index: number;
}

type Collective = TraceEvent['operation'];

/** A process group that records its calls and injects one fault on request. */
export class ObservedGroup implements ProcessGroup {
  readonly trace: TraceEvent[] = [];
  readonly #group: ProcessGroup;
  #fault: GroupFault | undefined;
  #numStarted = 0;

  constructor(group: ProcessGroup) {
    this.#group = group;
  }

  /** Clears the record and injects `fault`; calls are counted from here. */
  begin(fault?: GroupFault): void {
    this.#fault = fault;
    this.#numStarted = 0;
    this.trace.length = 0;
  }

  get name() {
    return this.#group.name;
  }
  get engine() {
    return this.#group.engine;
  }
  get ranks() {
    return this.#group.ranks;
  }
  get rank() {
    return this.#group.rank;
  }
  get size() {
    return this.#group.size;
  }

  allReduce: ProcessGroup['allReduce'] = (tensor, options) =>
    this.#observe('allReduce', tensor.size, {
      start: () => this.#group.allReduce(tensor, options),
      drop: () => {},
    });

  allGather: ProcessGroup['allGather'] = ({ output, input }) =>
    this.#observe('allGather', output.size, {
      start: () => this.#group.allGather({ output, input }),
      drop: () => {
        output.zero();
        const own = output.view({ offset: this.rank * input.size, shape: input.shape });
        own.write(input.read());
        own.dispose();
      },
    });

  reduceScatter: ProcessGroup['reduceScatter'] = (call) =>
    this.#observe('reduceScatter', call.input.size, {
      start: () => this.#group.reduceScatter(call),
      drop: () => {
        const { output, input } = call;
        const own = input.view({ offset: this.rank * output.size, shape: output.shape });
        output.write(own.read());
        own.dispose();
      },
    });

  broadcast: ProcessGroup['broadcast'] = (tensor, options) => this.#group.broadcast(tensor, options);
  allToAll: ProcessGroup['allToAll'] = (tensors) => this.#group.allToAll(tensors);
  send: ProcessGroup['send'] = (tensor, options) => this.#group.send(tensor, options);
  receive: ProcessGroup['receive'] = (tensor, options) => this.#group.receive(tensor, options);
  barrier: ProcessGroup['barrier'] = () => this.#group.barrier();
  statistics: ProcessGroup['statistics'] = () => this.#group.statistics();
  close: ProcessGroup['close'] = () => this.#group.close();
  [Symbol.dispose] = this.close;

  #observe(operation: Collective, size: number, how: { start(): Work; drop(): void }): Work {
    const index = this.#numStarted++;
    const record = (kind: TraceEvent['kind']): void => {
      this.trace.push({ kind, index, operation, size, flops: countedFlops() });
    };
    const fault = this.#fault?.index === index ? this.#fault.kind : undefined;
    record('start');
    if (fault === 'drop') how.drop();
    const work = fault === 'drop' ? undefined : how.start();
    return new CallbackWork({
      wait: () => {
        record('wait');
        if (fault !== 'forget') work?.wait();
      },
      isDone: () => work?.isDone ?? true,
    });
  }
}
