import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  layerNorm,
  linear,
  listDomains,
  Parameter,
  ParameterUnit,
  recompute,
  Tape,
  type Variable,
} from './index.js';

const size = 4;
let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

/** Builds two layers, each a norm and a matmul, and a list that records the events of their units. */
function twoLayers() {
  const named = (name: string, globalShape: number[]): Parameter =>
    new Parameter({ name, globalShape, initialization: { kind: 'ones' } });
  const events: string[] = [];
  const layers = ['a', 'b'].map((name) => {
    const weight = named(`${name}.weight`, [size, size]);
    const [gain, shift] = [named(`${name}.gain`, [size]), named(`${name}.shift`, [size])];
    const unit = new ParameterUnit([weight, gain, shift]);
    unit.keptBy({
      acquire: () => events.push(`+${name}`),
      release: () => events.push(`-${name}`),
    });
    const forward = (tape: Tape, input: Variable): Variable =>
      tape.within(unit, () =>
        tape.scope(() => {
          const normed = layerNorm(tape, { input, weight: gain, bias: shift, epsilon: 1e-5 });
          return linear(tape, { input: normed, weight });
        }),
      );
    return { unit, forward, parameters: [weight, gain, shift] };
  });
  const storage = allocateParameters(
    layers.flatMap(({ parameters }) => parameters),
    { device: 'reference', dtype: 'float64', mainGradients: true },
  );
  const input = (tape: Tape): Variable =>
    tape.input(Tensor.zeros({ shape: [2, size], dtype: 'float64', device: 'reference' }), {
      requiresGradient: true,
    });
  const taken = (): string => events.splice(0).join(' ');
  return { layers, input, taken, dispose: () => storage.dispose() };
}

describe('a unit of parameters', () => {
  it('is acquired in forward and when either half of backward passes it', () => {
    const { layers, input, taken, dispose } = twoLayers();
    for (const split of [false, true]) {
      const tape = new Tape();
      const first = input(tape);
      const hidden = layers[0]!.forward(tape, first);
      const output = layers[1]!.forward(tape, hidden);
      expect(taken()).toBe('+a -a +b -b');
      using gradient = Tensor.zeros({ shape: [2, size], dtype: 'float64', device: 'reference' });
      if (split) {
        tape.backwardInput(output, gradient);
        expect(taken()).toBe('+b -b +a -a');
        tape.backwardWeight();
      } else {
        tape.backward(output, gradient);
      }
      expect(taken()).toBe('+b -b +a -a');
      tape.dispose();
      for (const each of [first, hidden, output]) each.release();
    }
    dispose();
  });

  it('is acquired in a recomputation, and by a tape that does not record', () => {
    const { layers, input, taken, dispose } = twoLayers();
    const both = (tape: Tape, variable: Variable): Variable =>
      tape.scope(() => layers[1]!.forward(tape, layers[0]!.forward(tape, variable)));
    const tape = new Tape();
    const first = input(tape);
    const output = recompute(tape, first, both);
    expect(taken()).toBe('+a -a +b -b');
    using gradient = Tensor.zeros({ shape: [2, size], dtype: 'float64', device: 'reference' });
    tape.backward(output, gradient);
    expect(taken()).toBe('+a -a +b -b +b -b +a -a');
    const silent = new Tape({ recording: false });
    const result = both(silent, first);
    expect(taken()).toBe('+a -a +b -b');
    tape.dispose();
    for (const each of [first, output, result]) each.release();
    dispose();
  });

  it('is acquired for what another unit computes again of it', () => {
    const { layers, input, taken, dispose } = twoLayers();
    const [{ unit, parameters }, { unit: other }] = layers as [(typeof layers)[0], (typeof layers)[0]];
    const [weight, gain, shift] = parameters as [Parameter, Parameter, Parameter];
    const tape = new Tape();
    const first = input(tape);
    const normed = tape.within(unit, () =>
      layerNorm(tape, { input: first, weight: gain, bias: shift, epsilon: 1e-5 }),
    );
    const output = tape.within(other, () => linear(tape, { input: normed, weight }));
    normed.release();
    taken();
    using gradient = Tensor.zeros({ shape: [2, size], dtype: 'float64', device: 'reference' });
    tape.backward(output, gradient);
    expect(taken()).toBe('+b +a -a -b +a -a');
    tape.dispose();
    for (const each of [first, output]) each.release();
    dispose();
  });

  it('is released where forward or backward fails within it', () => {
    const { layers, input, taken, dispose } = twoLayers();
    const [{ unit }] = layers as [(typeof layers)[0]];
    const fail = (): never => {
      throw new Error('no');
    };
    const tape = new Tape();
    expect(() => tape.within(unit, fail)).toThrow('no');
    expect(taken()).toBe('+a -a');
    const first = input(tape);
    const result = tape.within(unit, () => {
      const made = tape.result(first.tensor.view({ shape: [2, size] }), { requiresGradient: true });
      tape.record(made, () => ({ name: 'fails', inputs: [], parameters: [], saved: [], backward: fail }));
      return made;
    });
    taken();
    expect(() => tape.backward(result)).toThrow('no');
    tape.dispose();
    expect(taken()).toBe('+a -a');
    for (const each of [first, result]) each.release();
    dispose();
  });

  it('refuses to be released more often than acquired', () => {
    const unit = new ParameterUnit([
      new Parameter({ name: 'w', globalShape: [2], initialization: { kind: 'zeros' } }),
    ]);
    unit.acquire();
    unit.release();
    expect(() => unit.release()).toThrow(/released more often than acquired/);
  });
});

describe('listDomains', () => {
  const parameter = (name: string, view: 'dense' | 'expert'): Parameter =>
    new Parameter({ name, globalShape: [2], initialization: { kind: 'zeros' }, placement: { view } });

  it('puts parameters together whose gradients are summed over the same processes', () => {
    const [a, b, c] = [parameter('a', 'expert'), parameter('b', 'dense'), parameter('c', 'expert')];
    expect(listDomains([a, b, c])).toEqual([
      { view: 'dense', parameters: [b] },
      { view: 'expert', parameters: [a, c] },
    ]);
    expect(listDomains([])).toEqual([{ view: 'dense', parameters: [] }]);
  });
});
