/** Whether a tensor of a model is one of the factors of a low-rank adapter, by its logical name. */
export const isAdapter = (name: string): boolean => /\.lora_[ab]\.weight$/.test(name);
