import { type BlockVariants, isRotatedLayer, type PositionVariants, windowOfLayer } from '@mtl/models';
import type { ConfigField, KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { checkNumLayers } from './layer-count.js';

// unlike our `windowSize`, the transformers library's window size includes the query's own position
const toWindow = (size: number): string => `${size - 1},0`;
const toSize = (window: unknown): number | null =>
  typeof window === 'string' ? Number.parseInt(window, 10) + 1 : null;

/**
 * The field for the window that all layers of a Mistral have. If the field is missing, the window is 4096;
 * null means no window.
 */
export const mistralWindow: ConfigField = {
  key: 'windowSize',
  names: ['sliding_window'],
  read: (fields) => {
    if (fields.values.sliding_window === null) return undefined;
    return toWindow(fields.optional('sliding_window', 'a positive integer', 4096));
  },
  write: toSize,
};

/**
 * The field for the window that all layers of a Mixtral have. If the field is missing, there is no window.
 */
export const mixtralWindow: ConfigField = {
  ...mistralWindow,
  read: (fields) => usedWindow(fields),
};

/** The field for the window that all layers of a Qwen3-MoE have. */
export const qwen3MoeWindow: ConfigField = {
  key: 'windowSize',
  // in a Qwen3-MoE `max_window_layers` has no effect
  names: ['sliding_window', 'use_sliding_window', 'max_window_layers'],
  read: (fields) => (usesWindow(fields) ? usedWindow(fields) : undefined),
  write: toSize,
  writeOthers: (window) => ({ use_sliding_window: window !== undefined }),
};

const usesWindow = (fields: JsonFields): boolean =>
  fields.optional('use_sliding_window', 'true or false', false);

function usedWindow(fields: JsonFields): string | undefined {
  const size = fields.optional<number | undefined>('sliding_window', 'a positive integer', undefined);
  return size === undefined ? undefined : toWindow(size);
}

type LayerType = 'full_attention' | 'sliding_attention';

/** Returns true if a layer has the window. Used if config.json has no `layer_types`. */
type WindowRule = (layer: number, fields: JsonFields, known: KnownProperties) => boolean;

/**
 * The fields for the window of a Qwen. The layers from `max_window_layers` on have the window, unless
 * `layer_types` lists different layers.
 */
export const qwenWindows: readonly ConfigField[] = windowsByLayer({
  ruleFields: ['max_window_layers'],
  hasWindow: (layer, fields) => layer >= maxWindowLayers(fields),
  // `layer_types` is written as well; without a window, `max_window_layers` has no effect
  writeRule: (window) => ({ max_window_layers: window === undefined ? undefined : 0 }),
});

/**
 * The fields for the window of a Qwen2-MoE. Without `layer_types`, layers 0, 2, 4 ... below
 * `max_window_layers` have the window.
 */
export const qwen2MoeWindows: readonly ConfigField[] = windowsByLayer({
  ruleFields: ['max_window_layers'],
  hasWindow: (layer, fields) => layer % 2 === 0 && layer < maxWindowLayers(fields),
  // 0 means that there is no window
  write: (window) => toSize(window) ?? 0,
});

/**
 * The fields for the window of a SmolLM3. Without `layer_types`, the layers without rotary positions have the
 * window.
 */
export const smolLm3Windows: readonly ConfigField[] = windowsByLayer({
  hasWindow: (layer, _, known) => !isRotatedLayer(known as PositionVariants, layer),
});

/**
 * Makes the fields for a window that only some layers have: the window's size, and the list of these layers.
 */
function windowsByLayer({
  ruleFields = [],
  hasWindow,
  write = toSize,
  writeRule = () => ({}),
}: {
  /** The config.json fields that only `hasWindow` reads. Default: none. */
  readonly ruleFields?: readonly string[];
  readonly hasWindow: WindowRule;
  readonly write?: (window: unknown) => number | null;
  readonly writeRule?: (window: unknown) => Readonly<Record<string, unknown>>;
}): readonly ConfigField[] {
  const listWindows = (fields: JsonFields, known: KnownProperties): readonly boolean[] => {
    checkNumLayers(fields, known);
    const size = usesWindow(fields)
      ? fields.optional<number | null>('sliding_window', 'a positive integer', null)
      : null;
    const listed = readLayerTypes(fields, known)?.map((type) => type === 'sliding_attention');
    if (size === null && listed?.includes(true)) {
      throw fields.unsupported('layer_types', {
        needs: 'a window that it does not have',
        expected: 'full_attention for each layer, or use_sliding_window true and a sliding_window',
      });
    }
    if (listed !== undefined || size === null) return listed ?? [];
    return Array.from({ length: known.numLayers as number }, (_, layer) => hasWindow(layer, fields, known));
  };
  return [
    {
      key: 'windowSize',
      names: ['sliding_window', 'use_sliding_window', ...ruleFields],
      read: (fields, known) => (listWindows(fields, known).includes(true) ? usedWindow(fields) : undefined),
      write,
      writeOthers: (window) => ({ use_sliding_window: window !== undefined, ...writeRule(window) }),
    },
    {
      key: 'windowAttnSkipFreq',
      names: ['layer_types'],
      read: (fields, known) => {
        const windows = listWindows(fields, known);
        const isMixed = windows.includes(true) && windows.includes(false);
        return isMixed ? windows.map(Number) : undefined;
      },
      write: (_, model) => {
        const { numLayers, ...variants } = model as unknown as BlockVariants & { readonly numLayers: number };
        return Array.from(
          { length: numLayers },
          (_, layer): LayerType =>
            windowOfLayer(variants, layer) === undefined ? 'full_attention' : 'sliding_attention',
        );
      },
    },
  ];
}

function maxWindowLayers(fields: JsonFields): number {
  const first = fields.values.max_window_layers ?? 28;
  if (Number.isSafeInteger(first)) return first as number;
  throw fields.refuse('max_window_layers', 'an integer');
}

/** Returns each layer's type from `layer_types`; undefined if config.json has no such list. */
function readLayerTypes(
  fields: JsonFields,
  { numLayers }: KnownProperties,
): readonly LayerType[] | undefined {
  const listed = fields.values.layer_types ?? undefined;
  if (listed === undefined) return undefined;
  const isKnown = (type: unknown) => type === 'full_attention' || type === 'sliding_attention';
  if (Array.isArray(listed) && listed.length === numLayers && listed.every(isKnown)) return listed;
  throw fields.refuse(
    'layer_types',
    `full_attention or sliding_attention for each of ${numLayers as number} layers`,
  );
}

/**
 * The field that states which layers of a SmolLM3 have no rotary positions. `no_rope_layers` contains 0 for
 * these layers.
 */
export const noRopeLayers: ConfigField = {
  key: 'noRopeFreq',
  names: ['no_rope_layers', 'no_rope_layer_interval'],
  read: (fields, known) => {
    const listed = fields.values.no_rope_layers ?? undefined;
    if (listed === undefined) return fields.optional('no_rope_layer_interval', 'a positive integer', 4);
    const numLayers = known.numLayers as number;
    if (
      !Array.isArray(listed) ||
      listed.length < numLayers ||
      !listed.every((one) => one === 0 || one === 1)
    ) {
      throw fields.refuse('no_rope_layers', `0 or 1 for each of ${numLayers} layers`);
    }
    const rotated = listed.slice(0, numLayers) as number[];
    return rotated.includes(0) ? rotated.map((one) => 1 - one) : undefined;
  },
  write: (_, model) =>
    Array.from({ length: model.numLayers as number }, (_, layer) =>
      Number(isRotatedLayer(model as PositionVariants, layer)),
    ),
};
