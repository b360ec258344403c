import { describe, expect, it } from 'vitest';
import { expertScalars } from './expert-scalars.js';

describe('expertScalars', () => {
  it('names the busiest expert, dropped choices and entropy, of all layers and of each', () => {
    const scalars = expertScalars({
      steps: 1,
      layers: ['decoder.layers.1.mlp', 'decoder.layers.3.mlp'],
      loads: [
        [2, 6],
        [4, 4],
      ],
      dropped: [0.25, 0],
      entropy: [0.5, null],
    });
    expect(Object.fromEntries(scalars.map(({ name, value }) => [name, value]))).toEqual({
      'experts/max_load': 1.5,
      'experts/dropped': 0.125,
      'experts/layer_1/max_load': 1.5,
      'experts/layer_1/dropped': 0.25,
      'experts/layer_1/entropy': 0.5,
      'experts/layer_3/max_load': 1,
      'experts/layer_3/dropped': 0,
    });
  });

  it('has at most 51 numbers, whatever the number of layers, with the first and the last layer', () => {
    for (const numLayers of [1, 16, 17, 60]) {
      const layers = Array.from({ length: numLayers }, (_, layer) => `decoder.layers.${layer}.mlp`);
      const scalars = expertScalars({
        layers,
        loads: layers.map(() => [1, 1]),
        dropped: layers.map(() => 0),
        entropy: layers.map(() => 0.1),
      });
      expect(scalars.length).toBe(3 * (1 + Math.min(16, numLayers)));
      expect(new Set(scalars.map(({ name }) => name)).size).toBe(scalars.length);
      for (const layer of [0, numLayers - 1])
        expect(scalars.map(({ name }) => name)).toContain(`experts/layer_${layer}/max_load`);
    }
  });

  it('leaves out what is no number, and records of another form', () => {
    expect(expertScalars({ layers: ['decoder.layers.0.mlp'], loads: [[0, 0]] })).toEqual([]);
    expect(expertScalars({ loads: 7 })).toEqual([]);
  });
});
