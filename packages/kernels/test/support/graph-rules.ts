import { expect, it } from 'vitest';
import {
  add,
  countedFlops,
  type Device,
  type DeviceGraph,
  GraphMemory,
  matmul,
  synchronize,
  Tensor,
} from '../../src/index.js';
import { refuseInGraph } from '../../src/internal/index.js';

/** Code of a test; `graph` has been recorded before. */
type Body = (tensor: Tensor, graph: DeviceGraph) => unknown;
type Refusal = readonly [title: string, body: Body, message: string];

const refused: readonly Refusal[] = [
  ['reads a tensor', (tensor) => tensor.toArray(), 'a copy to the host'],
  ['writes one', (tensor) => tensor.write(new Float32Array(4)), 'a copy from the host'],
  ['waits', ({ device }) => synchronize(device), 'waiting for the device'],
  ['talks to other ranks', ({ device }) => refuseInGraph(device, 'communication'), 'communication'],
  ['launches a graph', (_, graph) => graph.launch(), 'launching a graph'],
];

/** Tests the rules of graphs on every device that has them, in a group of tests of that device. */
export function graphRules(device: Device): void {
  const zeros = (): Tensor => Tensor.zeros({ shape: [4], dtype: 'float32', device });
  const double = (tensor: Tensor): void => add({ output: tensor, left: tensor, right: tensor });

  it.each(refused)('are not made of what %s', (_, body, message) => {
    using memory = new GraphMemory(device);
    using tensor = zeros();
    using graph = memory.capture(() => double(tensor));
    const record = (): DeviceGraph =>
      memory.capture(() => {
        double(tensor);
        body(tensor, graph);
      });
    expect(record).toThrow(
      expect.objectContaining({
        code: 'MTL_CAPTURE',
        message: `${message} cannot be part of a graph, and one is being recorded`,
      }),
    );
    // the next graph is recorded, and nothing is refused afterwards
    using next = memory.capture(() => double(tensor));
    next.launch();
    tensor.write(new Float32Array(4));
    refuseInGraph(device, 'communication');
    synchronize(device);
  });

  it('are not recorded within each other', () => {
    using memory = new GraphMemory(device);
    expect(() =>
      memory.capture(() => {
        using inner = new GraphMemory(device);
        inner.capture(() => {});
      }),
    ).toThrow();
    using graph = memory.capture(() => {});
    graph.launch();
  });

  it('count their FLOPs when they are launched', () => {
    using memory = new GraphMemory(device);
    const make = (): Tensor => Tensor.zeros({ shape: [2, 2], dtype: 'float32', device });
    using left = make();
    using output = make();
    const multiply = (): void => matmul({ output, left, right: left });
    multiply();
    const flops = 2 * 2 ** 3;
    const before = countedFlops();
    const counted = (): number => countedFlops() - before;
    using graph = memory.capture(() => {
      multiply();
      multiply();
    });
    expect(counted()).toBe(0);
    graph.launch();
    expect(counted()).toBe(2 * flops);
    multiply();
    graph.launch();
    expect(counted()).toBe(5 * flops);
    expect(() =>
      memory.capture(() => {
        multiply();
        throw new RangeError('of the body');
      }),
    ).toThrow(RangeError);
    expect(counted()).toBe(5 * flops);
  });
}
