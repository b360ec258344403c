/** Rotary position embeddings of a model. Absent: as in the first models that had them. */
export interface RotaryVariants {
  /** Absent: 10000. */
  readonly rotaryBase?: number | undefined;
  /** Share of the features of a head that are rotated. Absent: 1. */
  readonly rotaryPercent?: number | undefined;
  /** Whether elements 2i and 2i + 1 of a head are a pair; else i and i + R / 2. */
  readonly rotaryInterleaved?: boolean | undefined;
  /** All angles are divided by it (position interpolation). Absent: 1. */
  readonly rotarySeqLenInterpolationFactor?: number | undefined;
  /** Whether frequencies are scaled as in Llama 3.1, from 8192 positions by `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
}
