export { deliveryText } from '../services/delivery-text.js';
export { missingWandbKey } from '../services/missing-wandb-key.js';
