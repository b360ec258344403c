export { deliveryText } from '../services/delivery.js';
export { missingWandbKey } from '../services/send-kept-metrics.js';
