import { Tensor } from '@mtl/kernels';

const done = { wait: () => {}, isDone: true };

/**
 * Returns a world whose groups have an injected fault. The fault is the same on all ranks, so that nothing
 * hangs. For fault injection only.
 */
export function faultyWorld(world, fault) {
  const wrap = (group) => faultyGroup(group, fault);
  return {
    rank: world.rank,
    size: world.size,
    group: wrap(world.group),
    createGroup: (options) => wrap(world.createGroup(options)),
    abort: (reason) => world.abort(reason),
    close: () => world.close(),
    [Symbol.dispose]: () => world.close(),
  };
}

function faultyGroup(group, fault) {
  let numSums = 0;
  const swap = fault === 'swap-two-messages' && group.name === 'pp' && group.rank === 0;
  const send = swap ? swapTwoMessages(group) : undefined;
  const receive = fault === 'skip-ring-step' && group.name === 'cp' ? receiveNothing(group) : undefined;
  return new Proxy(group, {
    get(target, property) {
      const value = target[property];
      if (property === 'send' && send !== undefined) return send;
      if (property === 'receive' && receive !== undefined) return receive;
      if (property !== 'allReduce') return typeof value === 'function' ? value.bind(target) : value;
      return (tensor, options) => {
        const { name } = target;
        // Instances send each other only gradients.
        if (fault === 'drop-instance-sums' && name === 'dpInstances') return done;
        // long float32 vectors in the dp group are buckets of gradients
        if (
          fault === 'drop-gradient-reduce' &&
          name === 'dp' &&
          tensor.dtype === 'float32' &&
          tensor.size > 1000
        ) {
          return done;
        }
        if (fault === 'shrink-token-count' && name === 'world' && target.rank === 1) shrinkCount(tensor);
        if (name === 'tp' && tensor.shape.length === 3 && ++numSums === 3 && fault === 'drop-tensor-reduce') {
          return done;
        }
        // with two pipeline stages, the embedding group (first and last stage) contains all stages
        const isAlongPipeline = name === 'pp' || name === 'embedding';
        if (fault === 'skip-tied-sum' && isAlongPipeline && tensor.dtype === 'float32') return done;
        // sums of partial gradients are single vectors
        const isPartialSum = name === 'tp' && tensor.shape.length === 1 && tensor.size > 500;
        if (isPartialSum && fault === 'drop-partial-sums') return done;
        if (isPartialSum && fault === 'skip-one-partial-gradient') return sumAllButTheLast(target, tensor);
        return value.call(target, tensor, options);
      };
    },
  });
}

/**
 * Subtracts some counted tokens from the values that a rank shares before a step. In these values, the token
 * count follows the number of ranks without data. The sum after the passes is not changed: there, this
 * position is the peak memory on rank 0, and 0 on other ranks.
 */
function shrinkCount(tensor) {
  if (tensor.dtype !== 'float64' || tensor.size < 2) return;
  const values = tensor.read();
  if (values[1] > 1) tensor.write(values.map((value, at) => (at === 1 ? value - 7 : value)));
}

/** Returns a receive function that discards the received data, so that the caller's tensor stays 0. */
function receiveNothing(group) {
  return (tensor, options) => {
    const { shape, dtype, device } = tensor;
    const arrived = Tensor.empty({ shape, dtype, device });
    const work = group.receive(arrived, options);
    const block = tensor.view({ shape });
    return {
      wait: () => {
        work.wait();
        arrived.dispose();
        block.zero();
        block.dispose();
      },
      isDone: work.isDone,
    };
  };
}

/** Returns a send function that swaps the first two messages. */
function swapTwoMessages(group) {
  let numSent = 0;
  let held;
  return (tensor, options) => {
    numSent += 1;
    if (numSent > 2) return group.send(tensor, options);
    if (numSent === 1) {
      // a view keeps the tensor's memory after its owner disposes of the tensor
      held = { tensor: tensor.view({ shape: tensor.shape }), work: undefined };
      const first = held;
      return { wait: () => first.work.wait(), isDone: false };
    }
    const work = group.send(tensor, options);
    held.work = group.send(held.tensor, options);
    held.tensor.dispose();
    return work;
  };
}

/** Leaves out the last gradient in a vector: the gradient of the final norm's bias, which has 64 values. */
function sumAllButTheLast(group, tensor) {
  const last = { offset: tensor.size - 64, shape: [64] };
  const own = tensor.view(last).read();
  const work = group.allReduce(tensor);
  return {
    wait: () => {
      work.wait();
      tensor.view(last).write(own);
    },
    isDone: work.isDone,
  };
}
