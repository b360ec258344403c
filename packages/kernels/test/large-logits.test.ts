import { afterAll, describe, expect, it } from 'vitest';
import {
  crossEntropyBackward,
  crossEntropyForwardBackward,
  crossEntropyRescale,
  crossEntropyStatistics,
  type Device,
  hostInformation,
  type InstructionSet,
  setInstructionSet,
  Tensor,
  tidy,
} from '../src/index.js';

const numColumns = 4;
const places: Array<readonly [Device, InstructionSet]> = [
  ['reference', 'plain'],
  ...hostInformation().usableInstructionSets.map((level) => ['cpu', level] as const),
];

afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

/**
 * Returns the loss of a row of equal logits: in one call, in two steps, and as the second step on two ranks'
 * statistics.
 */
function losses(size: number, device: Device): number[] {
  return tidy(() => {
    const logits = Tensor.from(Array<number>(numColumns).fill(size), {
      shape: [1, numColumns],
      dtype: 'float32',
      device,
    });
    const labels = Tensor.from([2], { shape: [1], dtype: 'int32', device });
    const perRow = (): Tensor => Tensor.from([1], { shape: [1], dtype: 'float32', device });
    const statistics = { rowMaximum: perRow(), rowSum: perRow(), labelLogit: perRow() };
    const [weights, loss] = [perRow(), perRow()];
    const inputs = { logits, labels, numColumns };
    crossEntropyForwardBackward({ ...statistics, ...inputs, loss, weights });
    const atOnce = loss.item();
    crossEntropyStatistics({ ...statistics, ...inputs });
    crossEntropyBackward({ ...statistics, ...inputs, loss, weights });
    const inTwoSteps = loss.item();
    const { rowSum, rowMaximum } = statistics;
    crossEntropyRescale({ output: rowSum, rowSum, rowMaximum, groupMaximum: rowMaximum });
    crossEntropyBackward({ ...statistics, ...inputs, loss, weights });
    return [atOnce, inTwoSteps, loss.item()];
  });
}

describe.each(places)('cross entropy on %s, %s', (device, level) => {
  it.each([1, 1e6, 1e8, -1e8])('is ln 4 for four logits of %d', (size) => {
    setInstructionSet(level);
    // the bound is half a unit in the last place of 1.386 in float32
    for (const loss of losses(size, device)) expect(Math.abs(loss - Math.log(4))).toBeLessThan(1e-7);
  });
});
