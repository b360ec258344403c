import type { ProcessGroup, Work } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import type { Tensor } from '@mtl/kernels';

/**
 * The events in their order: 'reduce starts', 'reduce is waited for', 'gather starts', 'gather is waited
 * for', marks.
 */
export type Trace = string[];

/**
 * Writes the reductions and gathers of a group into a trace, and loses the result of one reduction if asked
 * to. `reduction` names the reductions in the trace.
 */
export function traceGroup(
  group: ProcessGroup,
  trace: Trace,
  {
    lostReduction,
    reduction = 'reduce',
  }: { readonly lostReduction?: number | undefined; readonly reduction?: string } = {},
): void {
  let numReductions = 0;
  const traced = (name: string, work: Work): Work => {
    trace.push(`${name} starts`);
    return new CallbackWork({
      wait: () => {
        trace.push(`${name} is waited for`);
        work.wait();
      },
      isDone: () => work.isDone,
    });
  };
  const [allReduce, reduceScatter] = [group.allReduce.bind(group), group.reduceScatter.bind(group)];
  const allGather = group.allGather.bind(group);
  group.allReduce = (tensor, options) => {
    const work = allReduce(tensor, options);
    return traced(reduction, numReductions++ === lostReduction ? withoutResult(work, tensor) : work);
  };
  group.reduceScatter = (call) => traced(reduction, reduceScatter(call));
  group.allGather = (call) => traced('gather', allGather(call));
}

/** Leaves the tensor as it is when the work is done. */
function withoutResult(work: Work, tensor: Tensor): Work {
  const values = tensor.read();
  const target = tensor.view({ shape: tensor.shape });
  return new CallbackWork({
    wait: () => {
      work.wait();
      target.write(values);
      target.dispose();
    },
  });
}
