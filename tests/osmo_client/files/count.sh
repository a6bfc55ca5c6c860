list=(a b)
echo "${#list[@]} of {{ rounds }}"
