const done = { wait: () => {}, isDone: true };

/** A world whose groups make one mistake, the same on all ranks, so that nothing hangs. For the mutation suite only. */
export function faultyWorld(world, fault) {
  const wrap = (group) => faultyGroup(group, fault);
  return {
    rank: world.rank,
    size: world.size,
    group: wrap(world.group),
    createGroup: (options) => wrap(world.createGroup(options)),
    abort: (reason) => world.abort(reason),
    close: () => world.close(),
  };
}

function faultyGroup(group, fault) {
  let numSums = 0;
  return new Proxy(group, {
    get(target, property) {
      const value = target[property];
      if (property !== 'allReduce') return typeof value === 'function' ? value.bind(target) : value;
      return (tensor, options) => {
        const { name } = target;
        // long float32 vectors along dp are buckets of gradients; one float64 is the token count
        if (
          fault === 'drop-gradient-reduce' &&
          name === 'dp' &&
          tensor.dtype === 'float32' &&
          tensor.size > 1000
        ) {
          return done;
        }
        if (
          fault === 'shrink-token-count' &&
          name === 'dp' &&
          tensor.dtype === 'float64' &&
          target.rank === 1
        ) {
          if (tensor.size === 1 && tensor.item() > 1) tensor.write(Float64Array.of(tensor.item() - 7));
        }
        if (name === 'tp' && tensor.shape.length === 3 && ++numSums === 3 && fault === 'drop-tensor-reduce') {
          return done;
        }
        // sums of gradients that are only parts come as one vector
        if (fault === 'drop-partial-sum' && name === 'tp' && tensor.shape.length === 1 && tensor.size > 500) {
          return done;
        }
        return value.call(target, tensor, options);
      };
    },
  });
}

/** Shifts the global numbers of this rank's samples, on which its dropout masks depend. */
export function shiftSamples(training) {
  const { stage } = training;
  const forward = stage.forward.bind(stage);
  stage.forward = (call) => {
    const sampleNumbers = call.batch.sampleNumbers.map((number) => number + 1);
    return forward({ ...call, batch: { ...call.batch, sampleNumbers } });
  };
}
