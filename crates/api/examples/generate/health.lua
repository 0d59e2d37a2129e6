-- The health of KIND for Argo CD, from the conditions Ready, Reconciling and Stalled.
local status = obj.status or {}
local lost = false
for _, condition in ipairs(status.conditions or {}) do
  -- The definition may lack observedGeneration, and then no wait for it would end.
  local tells = condition.type == "FieldsDropped" or condition.type == "Blocked"
  lost = lost or (tells and condition.status == "True" and status.observedGeneration == nil)
end
if not lost and status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Weft has not seen the latest change yet" }
end
local health = { status = "Progressing", message = "Weft has not reported a state yet" }
for _, condition in ipairs(status.conditions or {}) do
  local message = condition.message or condition.reason or ""
  if condition.status == "True" then
    if condition.type == "Stalled" then
      if condition.reason == "ResourcePaused" then
        return { status = "Suspended", message = message }
      end
      return { status = "Degraded", message = message }
    elseif condition.type == "Reconciling" then
      return { status = "Progressing", message = message }
    elseif condition.type == "Ready" then
      health = { status = "Healthy", message = message }
    end
  end
end
return health
