import { add, Tensor } from '@mtl/kernels';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DeviceWaits } from '../../src/device-waits.js';

const { problem, title } = findGpu();
const device = 'cuda';

describe.skipIf(problem !== undefined)(`waits of a device (${title})`, () => {
  let values: Tensor;
  beforeAll(() => {
    openCuda();
    values = Tensor.zeros({ shape: [1 << 18], dtype: 'float32', device });
  });
  afterAll(() => values.dispose());
  const work = (times: number): void => {
    for (let time = 0; time < times; time++) add({ output: values, left: values, right: values });
  };
  const waits = new DeviceWaits(device);

  it('are told apart from what it computes', () => {
    // a busy machine can disturb a measurement: one good attempt out of five is enough
    const shares = Array.from({ length: 5 }, () => {
      const { computeMs, waitedMs } = waits
        .measure(() => {
          work(1);
          waits.wait(() => work(20));
          work(1);
          waits.wait(() => work(20));
        })
        .read();
      expect(Math.min(computeMs, waitedMs)).toBeGreaterThan(0);
      return waitedMs / (computeMs + waitedMs);
    });
    expect(Math.max(...shares)).toBeGreaterThan(0.8);
  });

  it('are none where nothing is waited for', () => {
    const { computeMs, waitedMs } = waits.measure(() => work(3)).read();
    expect(computeMs).toBeGreaterThan(0);
    expect(waitedMs).toBe(0);
  });

  it('are no part of what follows a measurement, or one that failed', () => {
    const measured = waits.measure(() => waits.wait(() => work(1)));
    const fails = (): void => {
      waits.wait(() => work(1));
      throw new Error('no more');
    };
    expect(() => waits.measure(fails)).toThrow('no more');
    let waited = 0;
    waits.wait(() => {
      waited += 1;
    });
    expect(waited).toBe(1);
    expect(measured.read().waitedMs).toBeGreaterThan(0);
    measured.dispose();
  });
});
