/** Low-rank adapters as users ask for them and PEFT's adapter_config.json states them. */
export interface LoraConfiguration {
  /** r */
  readonly rank: number;
  readonly alpha: number;
  /** Whether what adapters add is scaled by alpha / sqrt(r) (Kalajdzievski 2023) instead of alpha / r. */
  readonly useRslora: boolean;
  readonly dropout: number;
  /** Names of linear layers in the transformers library, such as `q_proj` (see `loraModules`). */
  readonly targets: readonly string[];
}
