import { Parameter, ParameterUnit } from '@mtl/autograd';
import { SingleProcessGroup } from '@mtl/comm';
import { describe, expect, it, onTestFinished } from 'vitest';
import { UnitGradients } from './unit-gradients.js';
import { unitLayout } from './unit-layout.js';

/** Two units with one parameter of two elements each, and their gradients. */
function build(dtype: 'float32' | 'bfloat16') {
  const parameters = ['first', 'second'].map(
    (name) => new Parameter({ name, globalShape: [2], initialization: { kind: 'zeros' } }),
  );
  const units = parameters.map((parameter) => new ParameterUnit([parameter]));
  const group = new SingleProcessGroup('alone');
  const layout = unitLayout(parameters, { units, group });
  const gradients = new UnitGradients(layout, { group, dtype, device: 'cpu' });
  onTestFinished(() => gradients.dispose());
  return {
    gradients,
    /** Adds a value to both gradients of a unit, as a backward pass does. */
    add(index: number, value: number): void {
      const parameter = parameters[index]!;
      const { mainGradient } = parameter;
      mainGradient.write(mainGradient.read<'float32'>().map((each) => each + value));
      parameter.keepGradient();
      parameter.notifyGradientReady();
      gradients.release(units[index]!);
    },
    read: (): readonly number[] =>
      layout.ranges.map((range) => {
        using gradient = gradients.gradient({ start: range.start, end: range.start + 1 });
        return gradient.toArray()[0]!;
      }),
  };
}

describe.each(['float32', 'bfloat16'] as const)('gradients of units in %s', (dtype) => {
  it('are the sums of the micro-batches of a step', () => {
    const { gradients, add, read } = build(dtype);
    for (const factor of [1, 10]) {
      for (const value of [1, 2, 3]) {
        add(1, factor * value);
        add(0, factor);
      }
      gradients.reduce();
      expect(read()).toEqual([3 * factor, 6 * factor]);
      gradients.clear();
    }
  });

  it('are zero in a step without gradients of the unit', () => {
    const { gradients, add, read } = build(dtype);
    for (const index of [0, 1]) add(index, 5);
    gradients.reduce();
    gradients.clear();
    add(0, 7);
    gradients.reduce();
    expect(read()).toEqual([7, 0]);
  });

  it('do not keep an overflow of the step before', () => {
    const { gradients, add, read } = build(dtype);
    add(0, Number.POSITIVE_INFINITY);
    gradients.reduce();
    gradients.clear();
    add(0, 2);
    gradients.reduce();
    expect(read()).toEqual([2, 0]);
  });
});
